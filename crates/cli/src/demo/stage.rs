//! The folder in which the demo plays: the example agent, its store and its ledger.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use relight::{EventEnvelope, RunId, StoreError, store::Digest};

use crate::{exit::Exit, failure::Failure};

/// The folder, removed at the end unless it is kept.
pub(super) struct Stage {
    folder: PathBuf,
    _removed_at_the_end: Option<tempfile::TempDir>,
}

impl Stage {
    pub(super) fn set(keep: Option<&Path>) -> Result<Self, Failure> {
        let stage = match keep {
            Some(folder) => {
                let folder = std::path::absolute(folder).map_err(|error| cannot(folder, &error))?;
                fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
                let mut entries = fs::read_dir(&folder).map_err(|error| cannot(&folder, &error))?;
                if entries.next().is_some() {
                    let message = format!("{} is not empty; give --keep a new folder", folder.display());
                    return Err(Failure::bad_input(message));
                }
                Self { folder, _removed_at_the_end: None }
            }
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("relight-demo-")
                    .tempdir()
                    .map_err(|error| cannot(&std::env::temp_dir(), &error))?;
                Self { folder: folder.path().to_owned(), _removed_at_the_end: Some(folder) }
            }
        };
        for (path, text) in AGENT {
            let path = stage.folder.join(path);
            let write = || -> io::Result<()> {
                fs::create_dir_all(path.parent().unwrap_or(&stage.folder))?;
                fs::write(&path, text)
            };
            write().map_err(|error| cannot(&path, &error))?;
        }
        Ok(stage)
    }

    pub(super) fn is_kept(&self) -> bool {
        self._removed_at_the_end.is_none()
    }

    pub(super) fn agent(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("relight.db")
    }

    /// The whole lines that stand in the ledger now.
    pub(super) fn ledger(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("ledger.jsonl")).unwrap_or_default();
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }

    /// The log and its last link, verified.
    pub(super) async fn read_log(&self, run: RunId) -> Result<(Vec<EventEnvelope>, Digest), StoreError> {
        let store = relight::open(&self.store().display().to_string()).await?;
        let log = store.read_log(run).await?;
        let head = store.head(run).await?.ok_or(StoreError::UnknownRun { run })?;
        Ok((log, head.link))
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::BadInput, format!("the demo cannot write {}: {error}", path.display()))
}

/// The example that readers find in the repository under `crates/cli/agents/refund`.
const AGENT: &[(&str, &str)] = &[
    ("agent.toml", include_str!("../../agents/refund/agent.toml")),
    ("refund.sh", include_str!("../../agents/refund/refund.sh")),
    ("was_it_booked.sh", include_str!("../../agents/refund/was_it_booked.sh")),
    ("orders/1042.txt", include_str!("../../agents/refund/orders/1042.txt")),
];
