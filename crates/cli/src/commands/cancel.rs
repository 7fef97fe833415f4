//! `relight cancel`: ends a run from outside.

use relight::Runtime;

use super::given::operator;
use crate::{exit::Exit, failure::Failure, output, store};

/// End a run
///
/// A process that drives it meets the end with its next event and stops. What was done stays done; writes whose outcome
/// is unknown are listed in the run's last event.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight cancel 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11
  relight cancel 0198c1f2-7f63 --by 'on call'")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    /// Who ends it, as the log will name them; the variable USER, where it is not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let store = store::open(store).await?;
    let run = store::find_run(store.as_ref(), &args.run).await?;
    Runtime::new(store).cancel(run, &args.by.unwrap_or_else(operator)).await?;
    output::note(format_args!("run {run} is cancelled"));
    Ok(Exit::Ok)
}
