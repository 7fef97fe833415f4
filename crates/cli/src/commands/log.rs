//! Reading logs for people: as far as they can be trusted, and what stopped the reading.

use relight::{
    EventEnvelope, EventStore, RunId, RunState, StoreError,
    core::chain::Verifier,
    store::{Digest, Head, SeqRange, check_end},
};

use crate::failure::Failure;

/// A log as far as it can be read and verified.
pub(crate) struct ReadLog {
    pub(crate) events: Vec<EventEnvelope>,
    /// The state after those events.
    pub(crate) state: RunState,
    /// The link of the last of them.
    pub(crate) link: Option<Digest>,
    /// What is wrong with the first event that is not among them.
    pub(crate) damage: Option<StoreError>,
}

/// Reads and verifies a log: its chain up to the head, and that each event can follow those before.
///
/// # Errors
///
/// Where there is no such run, or the store failed; damage is no error here.
pub(crate) async fn read(store: &dyn EventStore, run: RunId) -> Result<ReadLog, Failure> {
    let head = match store.head(run).await {
        Ok(Some(head)) => head,
        Ok(None) => return Err(StoreError::UnknownRun { run }.into()),
        Err(error) if is_damage(&error) => return Ok(ReadLog::nothing(error)),
        Err(error) => return Err(error.into()),
    };
    let mut log = ReadLog::nothing(None);
    match read_into(&mut log, store, run, head).await {
        Ok(()) => Ok(log),
        Err(error) if is_damage(&error) => {
            log.damage = Some(error);
            Ok(log)
        }
        Err(error) => Err(error.into()),
    }
}

async fn read_into(
    log: &mut ReadLog,
    store: &dyn EventStore,
    run: RunId,
    head: Head,
) -> Result<(), StoreError> {
    let mut verifier = Verifier::new(run);
    while verifier.next() <= head.seq {
        let page = store.load(run, SeqRange::between(verifier.next(), head.seq)).await?;
        if page.is_empty() {
            break;
        }
        for record in &page {
            let event = verifier.accept(record)?;
            log.state = std::mem::take(&mut log.state).apply(&event)?;
            log.events.push(event);
            log.link = Some(verifier.link());
        }
    }
    verifier.finish(head.seq, head.link)?;
    check_end(store, run, head).await
}

impl ReadLog {
    fn nothing(damage: impl Into<Option<StoreError>>) -> Self {
        Self { events: Vec::new(), state: RunState::NotStarted, link: None, damage: damage.into() }
    }

    /// Ends a command that has shown what there is.
    pub(crate) fn into_result(self) -> Result<(), Failure> {
        self.damage.map_or(Ok(()), |damage| Err(damage.into()))
    }
}

/// Whether the log is at fault, and not the way to it.
const fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. })
}

/// Who acts on a run from this terminal, as the log will name them.
pub(crate) fn operator() -> String {
    let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}
