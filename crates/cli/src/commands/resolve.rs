//! `relight resolve`: a person says what became of a write.

use relight::{
    Runtime, Seq,
    core::{Resolution, ToolFailure, ToolOutcome},
};

use super::given::{operator, read_json};
use crate::{exit::Exit, failure::Failure, output, store};

/// Say what became of a tool call whose outcome is unknown
///
/// Find out first: `relight show RUN` has the call's input and its idempotency key. What is said here is recorded and
/// believed.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("resolution").required(true).args(["outcome", "failed", "not_done"]))]
#[command(after_help = "\
Examples:
  relight resolve 0198c1f2-7f63 9 --outcome '{\"receipt\": \"R-77\"}'   # it was done, with this answer
  relight resolve 0198c1f2-7f63 9 --failed 'the account is closed'     # it was refused, as the model is told
  relight resolve 0198c1f2-7f63 9 --not-done                           # it was not done, and will be")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    /// The event that asked for the call
    event: Seq,

    /// It was done, with this outcome; `@FILE` reads the JSON from a file, `-` from stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    outcome: Option<String>,

    /// It ended in this error, and left nothing to settle
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    failed: Option<String>,

    /// It was not done and cannot be any more, so it may be done again
    #[arg(long)]
    not_done: bool,

    /// Who says so, as the log will name them; the variable USER, where it is not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(crate) async fn run(args: Args, address: &str) -> Result<Exit, Failure> {
    let resolution = match (args.outcome, args.failed) {
        (Some(outcome), _) => Resolution::Outcome(ToolOutcome::Returned(read_json("--outcome", &outcome)?)),
        (None, Some(message)) => {
            let failure = ToolFailure { code: "resolved_as_failed".to_owned(), message };
            Resolution::Outcome(ToolOutcome::Failed(failure))
        }
        (None, None) => Resolution::NotDone {},
    };
    let store = store::open(address).await?;
    let run = store::find_run(store.as_ref(), &args.run).await?;
    let by = args.by.unwrap_or_else(operator);
    Runtime::new(store).resolve(run, args.event, resolution, &by).await?;
    let flag = store::flag(address);
    output::note(format_args!("recorded; go on with `relight resume {run} --agent FILE{flag}`"));
    Ok(Exit::Ok)
}
