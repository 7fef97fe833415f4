//! What tests of Relight agents run against: a scripted model server and faults.
//!
//! [`ScriptedServer`] is a real HTTP server on loopback that speaks the Anthropic Messages API. A [`Script`] says what
//! it answers, as plain data: which [`Answer`] to which turn of a conversation, at what pace, and where it fails.
//! [`faults`] has stores that fail: [`CrashStore`](faults::CrashStore) stops a drive at any append, as SIGKILL would, and
//! [`FailingStore`](faults::FailingStore) answers any call with an error.
//! [`undisturbed`] makes the logs of a calm run and of a crashed one comparable.
//!
//! ```
//! use relight_testkit::{Answer, At, Script, ScriptedServer};
//! use serde_json::json;
//!
//! # async fn example() -> std::io::Result<()> {
//! let script = Script::new()
//!     // A conversation that holds no answer yet is asked to use a tool; one that holds an answer gets text.
//!     .turn(Answer::tool_use("toolu_1", "read_file", json!({ "path": "notes.txt" })))
//!     // The first request of this turn is cut off after four events; the second one gets the whole answer.
//!     .attempts([Answer::text("The notes say hello.").cut(At::Events(4)), Answer::text("The notes say hello.")]);
//! let server = ScriptedServer::start(script).await?;
//!
//! println!("point a client at {}", server.base_url());
//! server.wait_for(|requests| requests.iter().any(|request| request.turn == 1)).await;
//! assert_eq!(server.requests()[0].header("x-api-key"), None);
//! # Ok(())
//! # }
//! ```

mod answer;
mod connection;
pub mod faults;
pub mod paired;
mod plan;
mod request;
mod script;
mod seen;
mod server;
mod undisturbed;
mod wire;

pub use answer::{Answer, At, Block};
pub use request::RequestBody;
pub use script::Script;
pub use seen::{Progress, SeenRequest};
pub use server::ScriptedServer;
pub use undisturbed::undisturbed;
