//! `relight list`: what runs there are, and what each is up to.

use anstyle::Style;
use relight::{
    EventStore, RunSummary,
    store::{DamagedRow, RunQuery, StatusKind},
};
use serde_json::json;

use super::{
    given::Label,
    log::{self, Fault, Tally},
};
use crate::{
    exit::Exit,
    failure::Failure,
    output::{self, style, text::one_line},
    store::{self, Pages},
};

/// List runs, the newest first
///
/// A run is `running` from its start to its end, also while no process drives it; `relight show RUN` tells. A run that
/// cannot be read is marked, and hides no other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight list
  relight list --status waiting --status needs_reconciliation
  relight list --label customer=acme --limit 0
  relight list --verify --json | jq -r 'select(.verified == false) | .run_id'")]
pub(crate) struct Args {
    /// Only runs in this status (running, waiting, needs_reconciliation, cancelling, completed, failed, cancelled); may
    /// be given many times
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
        let mut rows = Vec::new();
        for run in page.items.into_iter().take(seen.left) {
            seen.left -= 1;
            let log = if args.verify { look_at(store.as_ref(), &run).await? } else { Log::NotRead };
            rows.push(Row::Run { run: Box::new(run), log });
        }
        rows.extend(page.damaged.into_iter().map(Row::Unreadable));
        for row in &rows {
            seen.tally.add(row.fault().as_ref());
        }
        if args.json { rows.iter().try_for_each(Row::print_json)? } else { table(&mut seen, &rows)? }
    }
    seen.tally.into_result()
}

#[derive(Default)]
struct Seen {
    /// The width of the column of statuses; zero before the head is printed.
    status_width: usize,
    left: usize,
    tally: Tally,
}

async fn look_at(store: &dyn EventStore, run: &RunSummary) -> Result<Log, Failure> {
    match log::read(store, run.run_id).await {
        Ok(log) => Ok(log.fault().map_or(Log::Whole, Log::Faulty)),
        // The list knows the run, but its log has no head.
        Err(failure) if failure.exit == Exit::NoSuchRun => Ok(Log::Faulty(Fault::damaged("its log is gone"))),
        Err(failure) => Err(failure),
    }
}

/// A line of the list.
enum Row {
    Run { run: Box<RunSummary>, log: Log },
    Unreadable(DamagedRow),
}

/// What is known of a run's log.
enum Log {
    NotRead,
    Whole,
    Faulty(Fault),
}

impl Row {
    fn fault(&self) -> Option<Fault> {
        match self {
            Self::Run { log: Log::Faulty(fault), .. } => Some(fault.clone()),
            Self::Run { .. } => None,
            Self::Unreadable(row) => Some(Fault::damaged(&row.why)),
        }
    }

    fn status(&self) -> (Style, &'static str) {
        match self {
            Self::Run { log: Log::Faulty(fault), .. } => (style::BAD, fault.word),
            Self::Run { run, .. } => (style::of_status(run.status.kind()), run.status.kind().as_str()),
            Self::Unreadable(_) => (style::BAD, "UNREADABLE"),
        }
    }

    fn print_json(&self) -> Result<(), Failure> {
        match self {
            Self::Unreadable(row) => output::json_line(&json!({"run_id": row.run, "unreadable": row.why})),
            Self::Run { run, log } => {
                let mut line = json!(run);
                let damage = match log {
                    Log::NotRead => return output::json_line(&line),
                    Log::Whole => None,
                    Log::Faulty(fault) => Some(&fault.why),
                };
                line["verified"] = json!(damage.is_none());
                line["damage"] = json!(damage);
                output::json_line(&line)
            }
        }
    }

    fn print(&self, status_width: usize) -> Result<(), Failure> {
        let (style, status) = self.status();
        match self {
            Self::Unreadable(row) => {
                let (run, why) = (one_line(&row.run), one_line(&row.why));
                output::line(format_args!(
                    "{run:<36}  {style}{status:<status_width$}{style:#}  {why}; its log may be whole, see `relight verify {run}`"
                ))
            }
            Self::Run { run, log } => {
                let started = run.started_at.strftime("%Y-%m-%d %H:%M");
                let labels: Vec<_> =
                    run.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                output::line(format_args!(
                    "{}  {style}{status:<status_width$}{style:#}  {started}  {:>6}  {:>6}  {:>8}  {}",
                    run.run_id,
                    run.events,
                    run.drives,
                    run.usage.total(),
                    one_line(&labels.join(" ")),
                ))?;
                match log {
                    Log::Faulty(fault) => {
                        output::line(format_args!("    {style}{}{style:#}", one_line(&fault.why)))
                    }
                    Log::NotRead | Log::Whole => Ok(()),
                }
            }
        }
    }
}

/// Prints a page, its head before the first one.
fn table(seen: &mut Seen, rows: &[Row]) -> Result<(), Failure> {
    if rows.is_empty() {
        return Ok(());
    }
    if seen.status_width == 0 {
        seen.status_width =
            rows.iter().map(|row| row.status().1.len()).max().unwrap_or(0).max("STATUS".len());
        let (bold, width) = (style::BOLD, seen.status_width);
        output::line(format_args!(
            "{bold}{:<36}  {:<width$}  {:<16}  {:>6}  {:>6}  {:>8}  LABELS{bold:#}",
            "RUN", "STATUS", "STARTED (UTC)", "EVENTS", "DRIVES", "TOKENS"
        ))?;
    }
    rows.iter().try_for_each(|row| row.print(seen.status_width))
}

fn status(text: &str) -> Result<StatusKind, String> {
    text.parse().map_err(|_| {
        let known: Vec<_> = StatusKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("there are {}", known.join(", "))
    })
}
