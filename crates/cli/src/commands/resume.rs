//! `relight resume`: goes on with a run from where its log ends.

use std::str::FromStr;

use relight::{
    Event, EventStore, RunId, RunState, RuntimeError,
    runtime::{Limit, is_alive, this_process},
};

use super::{
    drive::{DriveArgs, Session},
    given::operator,
};
use crate::{exit::Exit, failure::Failure, store};

/// Go on with a run from where its log ends
///
/// What is recorded is replayed: no finished model call is made again, no finished tool runs again. A run that is over
/// answers with how it ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight resume 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11 --agent clerk.toml
  relight resume 0198c1f2-7f63 --agent clerk.toml --raise steps=40")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    #[command(flatten)]
    drive: DriveArgs,

    /// Raise a limit of this run to N before it goes on: `steps` or `tokens`
    #[arg(long = "raise", value_name = "LIMIT=N")]
    raises: Vec<Raise>,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let agent = args.drive.agent()?;
    let opened = store::open(store).await?;
    let run = store::find_run(opened.as_ref(), &args.run).await?;
    if !args.raises.is_empty() {
        refuse_while_driven(opened.as_ref(), run).await?;
    }
    let session = Session::begin(args.drive, opened, store)?;
    let runtime = session.runtime();
    for Raise { limit, to } in args.raises {
        runtime.raise(run, limit, to, &operator()).await?;
    }
    session.finish(run, runtime.resume(&agent, run)).await
}

/// A limit that is raised under a live driver would end its drive.
async fn refuse_while_driven(store: &dyn EventStore, run: RunId) -> Result<(), Failure> {
    let log = store.read_log(run).await?;
    let RunState::Running(_) = RunState::fold(&log)? else { return Ok(()) };
    let process = log.iter().rev().find_map(|envelope| match &envelope.event {
        Event::DriveStarted { process, .. } => Some(process),
        _ => None,
    });
    match process {
        Some(process) if process != this_process() && is_alive(process) == Some(true) => {
            Err(RuntimeError::StillDriven { run, process: Box::new(process.clone()) }.into())
        }
        _ => Ok(()),
    }
}

/// `LIMIT=N`.
#[derive(Debug, Clone)]
pub(crate) struct Raise {
    limit: Limit,
    to: u64,
}

impl FromStr for Raise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (limit, to) = text.split_once('=').ok_or("expected LIMIT=N, such as steps=40")?;
        let limit =
            limit.parse().map_err(|_| format!("{limit:?} is no limit; there are steps and tokens"))?;
        let to = to.parse().map_err(|_| format!("{to:?} is not a whole number"))?;
        Ok(Self { limit, to })
    }
}
