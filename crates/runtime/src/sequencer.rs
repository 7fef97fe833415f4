//! The one writer of a run's log in this drive: gives events their place, time and link, and appends them.

use std::sync::Arc;

use relight_core::{
    Event, EventEnvelope, Lane, LogError, Record, RunId, RunState, SCHEMA_VERSION, Seq, chain,
};
use relight_store::{Append, BatchId, Expect, Head, StoreError};

use crate::{
    error::RuntimeError,
    observer::{Notice, Observer},
    sources::Hooks,
};

/// Events wait here until they are flushed, all in one append.
pub(crate) struct Sequencer {
    hooks: Hooks,
    run: RunId,
    position: Position,
    /// The state that the log has once all that waits is appended.
    state: RunState,
    waiting: Vec<(EventEnvelope, Vec<u8>)>,
}

/// Where the next append goes.
#[derive(Debug, Clone, Copy)]
enum Position {
    /// The log is empty.
    Empty,
    /// The log was read up to here; the link of that record is the store's to tell.
    Read(Seq),
    /// This drive appended, or asked the store.
    At(Head),
}

impl Sequencer {
    pub(crate) fn new(hooks: Hooks, run: RunId, state: RunState) -> Self {
        let progress = state.progress();
        Self {
            position: progress.map_or(Position::Empty, |progress| Position::Read(progress.head)),
            hooks,
            run,
            state,
            waiting: Vec::new(),
        }
    }

    /// The state that the log has once all that waits is appended.
    pub(crate) const fn state(&self) -> &RunState {
        &self.state
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.hooks.observer
    }

    /// Gives an event its place and time. It is durable after the next [`flush`](Sequencer::flush).
    pub(crate) fn queue(&mut self, lane: &Lane, event: Event) -> Result<Seq, RuntimeError> {
        let now = (self.hooks.clock)();
        // The run's time never goes back, whatever the clock does.
        let (seq, recorded_at) = match self.state.progress() {
            None => (Seq::FIRST, now),
            Some(progress) => (progress.head.next(), now.max(progress.updated_at)),
        };
        let envelope = EventEnvelope {
            run_id: self.run,
            seq,
            schema_version: SCHEMA_VERSION,
            recorded_at,
            lane: lane.clone(),
            event,
        };
        // What cannot be written is refused here, at the call at fault, and changes nothing.
        let bytes = envelope.to_bytes()?;
        self.state = self.state.clone().apply(&envelope)?;
        self.waiting.push((envelope, bytes));
        Ok(seq)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Appends all that waits as one batch. On `Ok` it is durable.
    pub(crate) async fn flush(&mut self) -> Result<(), RuntimeError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (expect, mut link) = match self.position().await? {
            None => (Expect::NewRun, chain::GENESIS),
            Some(head) => (Expect::Head(head.seq), head.link),
        };
        let mut envelopes = Vec::with_capacity(self.waiting.len());
        let mut records = Vec::with_capacity(self.waiting.len());
        for (envelope, bytes) in self.waiting.drain(..) {
            link = chain::link(link, &bytes);
            records.push(Record { seq: envelope.seq, recorded_at: envelope.recorded_at, bytes, link });
            envelopes.push(envelope);
        }
        let summary = self.state.summary().expect("a run with events has a summary");
        let head = self
            .hooks
            .store
            .append(Append { run: self.run, expect, epoch: None, batch: BatchId::random(), records, summary })
            .await?;
        self.position = Position::At(head);
        for envelope in &envelopes {
            tracing::debug!(run = %self.run, seq = %envelope.seq, kind = envelope.event.kind(), "recorded");
            self.hooks.observer.observe(Notice::Recorded(envelope));
        }
        Ok(())
    }

    /// The head to append after; links are the store's to tell, never recomputed from decoded events.
    async fn position(&mut self) -> Result<Option<Head>, RuntimeError> {
        let read = match self.position {
            Position::Empty => return Ok(None),
            Position::At(head) => return Ok(Some(head)),
            Position::Read(read) => read,
        };
        match self.hooks.store.head(self.run).await? {
            Some(head) if head.seq == read => {
                self.position = Position::At(head);
                Ok(Some(head))
            }
            Some(head) if head.seq > read => Err(RuntimeError::Store(StoreError::Conflict {
                run: self.run,
                expected: Expect::Head(read),
                actual: Some(head.seq),
            })),
            head => {
                let reached = head.map_or(0, |head| head.seq.number());
                let why = format!("this context was given {read} events, but the store holds {reached}");
                Err(LogError::Corrupt { run: self.run, seq: read, why }.into())
            }
        }
    }
}
