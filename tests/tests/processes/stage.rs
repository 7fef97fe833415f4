//! A place for runs: a scripted model, a store in a file, and a folder in which the agent's tools work.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use relight_core::{EventEnvelope, Lane, RunId};
use relight_runtime::{Agent, Runtime, Start};
use relight_store::{EventStore, MemoryStore, SqliteStore};
use relight_testkit::{Script, ScriptedServer, undisturbed};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    agent::{Entry, agent, entries, furnish, script},
    protocol::{Setup, Work},
};

/// Gone, with all that is in it, when it is dropped.
pub(crate) struct Stage {
    pub(crate) server: ScriptedServer,
    folder: TempDir,
    store: PathBuf,
    balance: usize,
}

impl Stage {
    /// Prepares everything but the store, which is made by who opens it first.
    pub(crate) async fn set(script: Script) -> Stage {
        Stage::with_balance(script, 4).await
    }

    /// The same; what the agent reads has so many bytes.
    pub(crate) async fn with_balance(script: Script, balance: usize) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        furnish(folder.path(), balance);
        let store = folder.path().join("runs.db");
        Stage { server: ScriptedServer::start(script).await.unwrap(), folder, store, balance }
    }

    /// The same, on the store of this one.
    pub(crate) async fn beside(&self, script: Script) -> Stage {
        let other = Stage::with_balance(script, self.balance).await;
        Stage { store: self.store.clone(), ..other }
    }

    /// What a child needs to know.
    pub(crate) fn setup(&self) -> Setup {
        Setup {
            store: self.store.clone(),
            folder: self.folder.path().to_owned(),
            model: self.server.base_url(),
            max_pages: None,
        }
    }

    pub(crate) fn store_path(&self) -> &Path {
        &self.store
    }

    /// The agent, for a drive in this process.
    pub(crate) fn agent(&self) -> Agent {
        agent(&self.server.base_url(), self.folder.path(), None)
    }

    /// A handle of its own to the store.
    pub(crate) async fn store(&self) -> Arc<dyn EventStore> {
        Arc::new(SqliteStore::open(&self.store).await.unwrap())
    }

    /// The run's log, verified; empty where there is none.
    pub(crate) async fn log(&self, run: RunId) -> Vec<EventEnvelope> {
        let store = self.store().await;
        match store.head(run).await.unwrap() {
            Some(_) => store.read_log(run).await.unwrap(),
            None => Vec::new(),
        }
    }

    /// What a tool did for a run.
    pub(crate) fn done(&self, run: RunId, work: Work) -> Vec<Entry> {
        let all = entries(self.folder.path(), work).into_iter();
        all.filter(|entry| entry.run == run).collect()
    }

    /// The run has the log that an undisturbed one leaves, and each of its writes was done once.
    pub(crate) async fn assert_as_undisturbed(&self, run: RunId, context: &str) {
        let log = self.log(run).await;
        assert_eq!(undisturbed(&log), self.calm(run).await, "{context}");
        let paid: Vec<Value> = self.done(run, Work::Pay).into_iter().map(|entry| entry.input).collect();
        assert_eq!(paid, [json!({"amount": 12.5})], "{context}");
        let noted = self.done(run, Work::Note);
        assert!(!noted.is_empty() && noted.iter().all(|entry| *entry == noted[0]), "{context}: {noted:?}");
    }

    /// What the run leaves where nothing happens to it: driven once more, in this process, in memory.
    async fn calm(&self, run: RunId) -> BTreeMap<Lane, Vec<Value>> {
        let folder = tempfile::tempdir().unwrap();
        furnish(folder.path(), self.balance);
        let server = ScriptedServer::start(script()).await.unwrap();
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let agent = agent(&server.base_url(), folder.path(), None);
        Runtime::new(store.clone()).start(&agent, Start::from("go").with_run_id(run)).await.unwrap();
        undisturbed(&store.read_log(run).await.unwrap())
    }
}

/// An id that no other run of this program has.
pub(crate) fn new_run() -> RunId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    RunId::from_uuid(Uuid::from_u128(COUNT.fetch_add(1, Ordering::Relaxed).into()))
}
