//! `relight run`: starts a run and drives it until it ends or waits.

use relight::{RunId, Start};
use serde_json::Value;

use super::{
    drive::{DriveArgs, Session},
    given::{Label, read_json},
};
use crate::{exit::Exit, failure::Failure, store};

/// Start a run of an agent and drive it until it ends or waits
///
/// The answer goes to stdout, everything else to stderr. Whatever ends the process, `relight resume` goes on with
/// the run.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["input", "text"]))]
#[command(after_long_help = format!("{EXAMPLES}\n\n{AGENT_FILE}"), after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    drive: DriveArgs,

    /// The input as JSON; `@FILE` reads it from a file, `-` from stdin
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,

    /// The input as a text, which needs no quotes of JSON
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    /// A label for finding the run in lists; may be given many times
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<Label>,

    /// The run's id, a UUID; drawn where it is not given
    #[arg(long, value_name = "UUID")]
    run_id: Option<RunId>,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let agent = args.drive.agent()?;
    let input = match (args.input, args.text) {
        (_, Some(text)) => Value::String(text),
        (Some(input), None) => read_json("--input", &input)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let mut start = Start::from(input);
    for Label { name, value } in args.labels {
        start = start.with_label(name, value);
    }
    let session = Session::begin(args.drive, store::open_or_make(store).await?, store)?;
    let runtime = session.runtime();
    let run = args.run_id.unwrap_or_else(|| runtime.new_run_id());
    session.finish(run, runtime.start(&agent, start.with_run_id(run))).await
}

const EXAMPLES: &str = "\
Examples:
  relight run --agent clerk.toml --text 'Enter invoice 4711.'
  relight run --agent clerk.toml --input '{\"invoice\": 4711}' --label customer=acme
  relight run --agent clerk.toml --input @order.json --json | jq .output
  generate-order | relight run --agent clerk.toml --input -";

const AGENT_FILE: &str = "\
An agent file is TOML; paths in it are relative to it. A small one:
  model = \"claude-sonnet-4-5\"
  system = \"You keep the books.\"

  [budgets]
  steps = 20

  [[tools]]
  kind = \"read_file\"
  root = \"invoices\"

  [[tools]]
  kind = \"ledger\"
  path = \"ledger.jsonl\"

  [[tools]]
  kind = \"command\"
  name = \"pay\"
  description = \"Pays an invoice.\"
  effect = \"write\"
  program = \"./pay.sh\"
  reconcile = { program = \"./was-it-paid.sh\" }";
