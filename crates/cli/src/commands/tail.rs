//! `relight tail`: follows a run as it grows.

use std::time::Duration;

use jiff::Timestamp;
use relight::{
    Event, EventEnvelope, EventStore, RunId, RunState, StoreError,
    core::{Process, chain::Verifier},
    runtime::is_alive,
    store::SeqRange,
};

use crate::{
    exit::Exit,
    failure::Failure,
    output::{self, event},
    store,
};

/// Follow a run as it grows, until it ends
///
/// It also waits while no process drives the run, and says so on stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight tail 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11
  relight tail 0198c1f2-7f63 --last 0 --json | jq .event.kind")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    /// Begin with so many of the events there are already; all, where it is not given
    #[arg(long, value_name = "N")]
    last: Option<u64>,

    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, address: &str) -> Result<Exit, Failure> {
    let store = store::open(address).await?;
    let run = store::find_run(store.as_ref(), &args.run).await?;
    let mut follower = Follower {
        verifier: Verifier::new(run),
        state: RunState::NotStarted,
        started_at: None,
        driver: None,
    };
    let known = store.head(run).await?.ok_or(StoreError::UnknownRun { run })?.seq.number();
    let first = args.last.map_or(0, |last| known.saturating_sub(last)) + 1;
    loop {
        // Asked before reading on: a driver that ends well is gone after its last event.
        let is_gone = follower.driver.as_ref().is_some_and(|driver| is_alive(driver) == Some(false));
        let grown = follower.grow(store.as_ref(), run).await?;
        let is_idle = grown.is_empty();
        for envelope in grown {
            if envelope.seq.number() < first {
                continue;
            }
            if args.json {
                output::json_line(&envelope)?;
            } else {
                let started_at = follower.started_at.unwrap_or(envelope.recorded_at);
                output::line(event::line(&envelope, started_at))?;
            }
        }
        if follower.state.status().is_some_and(|status| status.kind().is_ended()) {
            return Ok(Exit::Ok);
        }
        if is_gone
            && is_idle
            && let Some(driver) = follower.driver.take()
        {
            let (pid, flag) = (driver.pid, store::flag(address));
            output::note(format_args!(
                "process {pid} drives this run no more; it goes on with `relight resume {run} --agent FILE{flag}`"
            ));
        }
        tokio::time::sleep(POLL).await;
    }
}

struct Follower {
    verifier: Verifier,
    state: RunState,
    started_at: Option<Timestamp>,
    /// The process of the latest drive, until it was said to be gone.
    driver: Option<Process>,
}

impl Follower {
    /// What came since, verified.
    async fn grow(&mut self, store: &dyn EventStore, run: RunId) -> Result<Vec<EventEnvelope>, Failure> {
        let mut grown = Vec::new();
        loop {
            let page = store.load(run, SeqRange::starting_at(self.verifier.next())).await?;
            if page.is_empty() {
                return Ok(grown);
            }
            for record in &page {
                let envelope = self.verifier.accept(record)?;
                self.state = std::mem::take(&mut self.state).apply(&envelope)?;
                self.started_at.get_or_insert(envelope.recorded_at);
                if let Event::DriveStarted { process, .. } = &envelope.event {
                    self.driver = Some(process.clone());
                }
                grown.push(envelope);
            }
        }
    }
}

/// A store that can wake its readers may come; until then it is asked.
const POLL: Duration = Duration::from_millis(150);
