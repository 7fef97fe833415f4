//! Reading logs for people: as far as they can be trusted, and what stopped the reading.

use relight::{
    EventEnvelope, EventStore, RunId, RunState, StoreError,
    core::chain::Verifier,
    store::{Digest, Head, SeqRange, check_end},
};

use crate::{exit::Exit, failure::Failure};

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

/// Why a run's log cannot be read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// The word that marks it in a list.
    pub(crate) word: &'static str,
    pub(crate) exit: Exit,
    pub(crate) why: String,
}

impl Fault {
    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self { word: "DAMAGED", exit: Exit::Damaged, why: why.into() }
    }
}

/// Counts what a command over many runs has met.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) whole: u64,
    pub(crate) damaged: u64,
    /// Written by a newer version, and no fault of theirs.
    pub(crate) newer: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, fault: Option<&Fault>) {
        match fault {
            None => self.whole += 1,
            Some(fault) if fault.exit == Exit::Damaged => self.damaged += 1,
            Some(_) => self.newer += 1,
        }
    }

    /// Ends the command: damage weighs more than what is only newer.
    pub(crate) fn into_result(self) -> Result<Exit, Failure> {
        let Self { whole, damaged, newer } = self;
        let all = whole + damaged + newer;
        match (damaged, newer) {
            (0, 0) => Ok(Exit::Ok),
            (0, newer) => {
                let message = format!(
                    "{newer} of {all} runs were written by a newer version; update Relight to read them"
                );
                Err(Failure::new(Exit::StoreFailed, message))
            }
            (damaged, _) => {
                let message = format!(
                    "{damaged} of {all} runs are damaged; the others can be used, and `relight verify RUN` says more"
                );
                Err(Failure::new(Exit::Damaged, message))
            }
        }
    }
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

    /// What is wrong with it, in words for a list.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let damage = self.damage.as_ref()?;
        let word = if let StoreError::Newer { .. } = damage { "NEWER" } else { "DAMAGED" };
        let failure = Failure::from(damage.clone());
        Some(Fault { word, exit: failure.exit, why: failure.to_string() })
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
