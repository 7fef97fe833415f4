//! How the suite gets hold of the store that it tests.

use std::sync::Arc;

use relight_core::{RunId, Seq};
use relight_store::{EventStore, Limits, StoreError, async_trait};

use crate::Unmet;

/// Makes stores to test.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// A new store with these limits, in which there is no run.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being made; every promise that needs it counts as broken then.
    async fn fresh(&self, limits: Limits) -> Result<Box<dyn Subject>, StoreError>;
}

/// One store that is tested, and what can be done to it from outside.
///
/// What a store cannot do it answers with [`Unmet::NotApplicable`] and the reason; the report shows it.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A handle to the store.
    fn store(&self) -> Arc<dyn EventStore>;

    /// Closes the store and opens it again over what it has kept; [`Subject::store`] gives the new one from here on.
    ///
    /// # Errors
    ///
    /// [`Unmet::NotApplicable`] where nothing is kept, [`Unmet::Broken`] where it cannot be opened again.
    async fn reopen(&mut self) -> Result<(), Unmet> {
        Err(Unmet::NotApplicable("the harness does not open a store again".to_owned()))
    }

    /// Damages what is kept of a run, behind the store's back.
    ///
    /// # Errors
    ///
    /// [`Unmet::NotApplicable`] where it cannot be reached.
    async fn damage(&mut self, run: RunId, damage: Damage) -> Result<(), Unmet> {
        let _ = (run, damage);
        Err(Unmet::NotApplicable("the harness does not damage what is kept".to_owned()))
    }
}

/// Damage to what a store has kept of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// One byte of this record is another.
    Changed(Seq),
    /// This record is gone, later ones stay where they are.
    Removed(Seq),
    /// A copy of this record stands behind it, later ones moved on by one.
    Inserted(Seq),
    /// This record and the next have changed places.
    Swapped(Seq),
    /// This record and all after it are gone.
    TailCut(Seq),
    /// The run's summary is nothing that can be read.
    Summary,
}
