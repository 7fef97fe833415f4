//! Where runs keep their logs: the [`EventStore`] trait, with a backend in memory and one on SQLite.
//!
//! A store moves bytes: it never parses, hashes or decides. Whoever appends computes links and summaries; the store
//! keeps them, in order, whole and durable. What it promises is a named test in `relight-conformance`, which any
//! backend of your own can run.
//!
//! | to learn | read |
//! |---|---|
//! | what a store does | [`EventStore`] |
//! | what is appended | [`Append`], [`Expect`], [`BatchId`] |
//! | what is read | [`Record`], [`SeqRange`], [`RunQuery`], [`Page`] |
//! | what can go wrong | [`StoreError`] |
//! | how much is too much | [`Limits`] |
//!
//! # Examples
//!
//! ```
//! use relight_core::{Event, EventEnvelope, Lane, RunState, SCHEMA_VERSION, chain};
//! use relight_store::{Append, BatchId, EventStore, Expect, MemoryStore, Record, RunId, Seq};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run: RunId = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse()?;
//! let started = EventEnvelope {
//!     run_id: run,
//!     seq: Seq::FIRST,
//!     schema_version: SCHEMA_VERSION,
//!     recorded_at: "2026-11-30T12:00:00Z".parse()?,
//!     lane: Lane::ROOT,
//!     event: Event::run_started("agent-1", serde_json::json!("hello")),
//! };
//!
//! let store = MemoryStore::new();
//! let append = Append {
//!     run,
//!     expect: Expect::NewRun,
//!     epoch: None,
//!     batch: BatchId::random(),
//!     records: vec![Record::seal(chain::GENESIS, &started)?],
//!     summary: RunState::fold([&started])?.summary().expect("it has started"),
//! };
//! let head = store.append(append).await?;
//! assert_eq!(head.seq, Seq::FIRST);
//! assert_eq!(store.read_log(run).await?, [started]);
//! # Ok(())
//! # }
//! ```

mod append;
mod error;
mod event_store;
mod limits;
mod memory;
mod query;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use append::{Append, BatchId, Epoch, Expect, Head};
pub use async_trait::async_trait;
pub use error::{Source, StoreError};
pub use event_store::{EventStore, check_end};
pub use limits::Limits;
pub use memory::MemoryStore;
pub use query::{Cursor, DamagedRow, Page, RunQuery, SeqRange};
#[doc(no_inline)]
pub use relight_core::{Digest, EventEnvelope, Record, RunId, RunStatus, RunSummary, Seq, StatusKind};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
