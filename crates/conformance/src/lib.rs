//! What any plug-in of Relight must pass: each promise of a contract as a named test, to run against your own part.
//!
//! | to test | implement | run |
//! |---|---|---|
//! | an event store | [`StoreHarness`] | [`store::run_all`] |
//! | a provider of models | [`ProviderHarness`] | [`provider::run_all`] |
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use relight_conformance::{StoreHarness, Subject, store};
//! use relight_store::{EventStore, Limits, MemoryStore, StoreError, async_trait};
//!
//! /// Says how to make the store that is tested.
//! struct Harness;
//!
//! #[async_trait]
//! impl StoreHarness for Harness {
//!     async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError> {
//!         Ok(Box::new(Fresh(Arc::new(MemoryStore::with_limits(limits)))))
//!     }
//! }
//!
//! struct Fresh(Arc<MemoryStore>);
//!
//! impl Subject for Fresh {
//!     fn store(&self) -> Arc<dyn EventStore> {
//!         Arc::clone(&self.0) as _
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = store::run_all(&Harness).await;
//! assert!(report.is_kept(), "{report}");
//! # }
//! ```

mod harness;
pub mod provider;
mod random;
mod report;
mod sample;
pub mod store;
mod suite;

pub use harness::{Damage, StoreHarness, Subject};
pub use provider::{ProviderHarness, Way};
pub use random::SplitMix;
pub use report::{Entry, Report, Unmet, Verdict};
pub use sample::SampleRun;
