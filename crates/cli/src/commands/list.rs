//! `relight list`: what runs there are, and what each is up to.

use relight::{
    EventStore, RunSummary,
    store::{DamagedRow, RunQuery, StatusKind},
};
use serde_json::json;

use super::{log, run::Label};
use crate::{
    exit::Exit,
    failure::Failure,
    output::{
        self, style,
        text::{count, one_line},
    },
    store::{self, Pages},
};

/// List runs, the newest first
///
/// A run that cannot be read is marked, and hides no other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight list
  relight list --status waiting --status needs_reconciliation
  relight list --label customer=acme --limit 0
  relight list --verify --json | jq -r 'select(.verified == false) | .run_id'")]
pub(crate) struct Args {
    /// Only runs in this status; may be given many times
    #[arg(long = "status", value_name = "STATUS", value_parser = status)]
    statuses: Vec<StatusKind>,

    /// Only runs with this label; may be given many times
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<Label>,

    /// Only runs of the agent with this hash
    #[arg(long, value_name = "HASH")]
    agent_hash: Option<String>,

    /// At most so many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Read every log of the list, and mark those that are damaged
    #[arg(long)]
    verify: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let store = store::open(store).await?;
    let query = RunQuery {
        statuses: args.statuses.clone(),
        agent_hash: args.agent_hash.clone(),
        labels: args.labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect(),
        limit: if args.limit == 0 { 1000 } else { args.limit.min(1000) },
        after: None,
    };
    let mut pages = Pages::new(query);
    let mut seen = Seen { left: if args.limit == 0 { usize::MAX } else { args.limit }, ..Seen::default() };
    while seen.left > 0
        && let Some(page) = pages.next(store.as_ref()).await?
    {
        for row in &page.damaged {
            seen.damaged += 1;
            unreadable(&args, &mut seen, row)?;
        }
        for run in page.items.iter().take(seen.left) {
            seen.left -= 1;
            let damage = if args.verify { damage_of(store.as_ref(), run).await? } else { None };
            seen.damaged += u64::from(damage.is_some());
            readable(&args, &mut seen, run, damage.as_deref())?;
        }
    }
    match seen.damaged {
        0 => Ok(Exit::Ok),
        damaged => {
            let message = format!(
                "{} damaged; the others can be used, and `relight verify RUN` says more",
                is(damaged)
            );
            Err(Failure::new(Exit::Damaged, message))
        }
    }
}

#[derive(Default)]
struct Seen {
    has_header: bool,
    left: usize,
    damaged: u64,
}

/// What is wrong with a run's log.
async fn damage_of(store: &dyn EventStore, run: &RunSummary) -> Result<Option<String>, Failure> {
    match log::read(store, run.run_id).await {
        Ok(log) => Ok(log.damage.map(|damage| damage.to_string())),
        // The list knows the run, but its log has no head.
        Err(failure) if failure.exit == Exit::NoSuchRun => Ok(Some("its log is gone".to_owned())),
        Err(failure) => Err(failure),
    }
}

fn readable(args: &Args, seen: &mut Seen, run: &RunSummary, damage: Option<&str>) -> Result<(), Failure> {
    if args.json {
        let mut line = json!(run);
        if args.verify {
            line["verified"] = json!(damage.is_none());
            line["damage"] = json!(damage);
        }
        return output::json_line(&line);
    }
    header(seen)?;
    let (status, style) = match damage {
        Some(_) => ("DAMAGED", style::BAD),
        None => (run.status.kind().as_str(), style::of_status(run.status.kind())),
    };
    let started = run.started_at.strftime("%Y-%m-%d %H:%M:%S");
    let labels: Vec<String> =
        run.labels.iter().map(|(name, value)| one_line(&format!("{name}={value}"))).collect();
    output::line(format_args!(
        "{}  {style}{status:<20}{style:#}  {started}  {:>6}  {:>6}  {:>6}  {:>8}  {}",
        run.run_id,
        run.events,
        run.drives,
        run.model_calls,
        run.usage.total(),
        labels.join(" "),
    ))?;
    match damage {
        Some(damage) => output::line(format_args!("    {0}{1}{0:#}", style::BAD, one_line(damage))),
        None => Ok(()),
    }
}

fn unreadable(args: &Args, seen: &mut Seen, row: &DamagedRow) -> Result<(), Failure> {
    if args.json {
        return output::json_line(&json!({"run_id": row.run, "unreadable": row.why}));
    }
    header(seen)?;
    let (run, why) = (one_line(&row.run), one_line(&row.why));
    output::line(format_args!("{run:<36}  {0}{1:<20}{0:#}  {why}", style::BAD, "UNREADABLE"))
}

fn header(seen: &mut Seen) -> Result<(), Failure> {
    if std::mem::replace(&mut seen.has_header, true) {
        return Ok(());
    }
    output::line(format_args!(
        "{0}{1:<36}  {2:<20}  {3:<19}  {4:>6}  {5:>6}  {6:>6}  {7:>8}  {8}{0:#}",
        style::BOLD,
        "RUN",
        "STATUS",
        "STARTED (UTC)",
        "EVENTS",
        "DRIVES",
        "STEPS",
        "TOKENS",
        "LABELS"
    ))
}

fn is(number: u64) -> String {
    format!("{} {}", count(number, "run"), if number == 1 { "is" } else { "are" })
}

fn status(text: &str) -> Result<StatusKind, String> {
    text.parse().map_err(|_| {
        let known: Vec<_> = StatusKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("there are {}", known.join(", "))
    })
}
