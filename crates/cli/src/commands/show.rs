//! `relight show`: one run, its events, and what it waits for.

use relight::{
    Event, EventEnvelope, RunId, RunState, Seq,
    core::{OpenIntent, Process, StatusKind, WaitReason},
    runtime::is_alive,
};
use serde_json::json;

use super::log::{self, ReadLog};
use crate::{
    exit::Exit,
    failure::Failure,
    output::{
        self, event, style,
        text::{count, one_line},
    },
    store,
};

/// Show a run: what it is up to, its events, and what a person has to decide
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight show 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11
  relight show 0198c1f2-7f63 7             # event 7 in full
  relight show 0198c1f2-7f63 --json | jq '.events[].event.kind'")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    /// Show this event in full
    event: Option<Seq>,

    /// Print JSON: the summary and all events, or the one event
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, address: &str) -> Result<Exit, Failure> {
    let store = store::open(address).await?;
    let run = store::find_run(store.as_ref(), &args.run).await?;
    let log = log::read(store.as_ref(), run).await?;
    match args.event {
        Some(seq) => match find_event(&log, run, seq)? {
            Some(envelope) if args.json => output::json_line(envelope)?,
            Some(envelope) => output::line(format_args!("{:#}", json!(envelope)))?,
            None => {}
        },
        None if args.json => {
            let damage = log.damage.as_ref().map(ToString::to_string);
            let driver_alive = driver_of(&log).and_then(is_alive);
            output::json_line(&json!({
                "run_id": run,
                "summary": log.state.summary(),
                "head": log.link,
                "driver_alive": driver_alive,
                "damage": damage,
                "events": log.events,
            }))?;
        }
        None => show_run(&log, run, address)?,
    }
    log.into_result().map(|()| Exit::Ok)
}

/// `None` where it may lie behind the damage, which is told at the end.
fn find_event(log: &ReadLog, run: RunId, seq: Seq) -> Result<Option<&EventEnvelope>, Failure> {
    let found = log.events.iter().find(|envelope| envelope.seq == seq);
    if found.is_none() && log.damage.is_none() {
        let last = log.events.last().map_or(0, |envelope| envelope.seq.number());
        return Err(Failure::bad_input(format!("run {run} has no event {seq}; its last is event {last}")));
    }
    Ok(found)
}

fn show_run(log: &ReadLog, run: RunId, address: &str) -> Result<(), Failure> {
    output::line(format_args!("{0}run {run}{0:#}", style::BOLD))?;
    let Some(summary) = log.state.summary() else { return Ok(()) };
    let kind = summary.status.kind();
    let status = style::of_status(kind);
    field("status", format_args!("{status}{kind}{status:#}"))?;
    if matches!(kind, StatusKind::Running | StatusKind::Cancelling)
        && let Some(driver) = driver_of(log)
    {
        field("driver", who_drives(driver, run, address))?;
    }
    field("started", summary.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"))?;
    field("agent", &summary.agent_hash)?;
    if !summary.labels.is_empty() {
        let labels: Vec<String> =
            summary.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        field("labels", one_line(&labels.join(" ")))?;
    }
    let counts = [
        count(summary.drives, "drive"),
        count(summary.model_calls, "model call"),
        count(summary.tool_calls, "tool call"),
        count(summary.usage.total(), "token"),
    ];
    field("so far", counts.join(", "))?;
    if let Some(link) = log.link {
        field("head", format_args!("event {} {}{link}{:#}", summary.events, style::DIM, style::DIM))?;
    }
    output::line("")?;
    for envelope in &log.events {
        output::line(event::line(envelope, summary.started_at))?;
    }
    match &log.state {
        RunState::Waiting { reason, .. } => waits(log, run, reason, address),
        RunState::Completed { output, .. } => {
            output::line(format_args!("\n{0}output{0:#}\n{output:#}", style::BOLD))
        }
        _ => Ok(()),
    }
}

/// The process of the latest drive.
fn driver_of(log: &ReadLog) -> Option<&Process> {
    log.events.iter().rev().find_map(|envelope| match &envelope.event {
        Event::DriveStarted { process, .. } => Some(process),
        _ => None,
    })
}

/// Whether anybody works on a run that has not ended, and what to do where nobody does.
fn who_drives(driver: &Process, run: RunId, address: &str) -> String {
    let (pid, host) = (driver.pid, one_line(&driver.host));
    match is_alive(driver) {
        Some(true) => format!("process {pid}, which is alive"),
        Some(false) => {
            let store = store::flag(address);
            format!("none: process {pid} is gone; go on with `relight resume {run} --agent FILE{store}`")
        }
        None => format!("process {pid} on {host}, which cannot be seen from here"),
    }
}

/// Everything that a person needs to decide.
fn waits(log: &ReadLog, run: RunId, reason: &WaitReason, address: &str) -> Result<(), Failure> {
    let store = store::flag(address);
    output::line(format_args!("\n{0}waits for you{0:#}", style::WAITS))?;
    match reason {
        WaitReason::Reconciliation { intent, why } => {
            let Some(call) = open_call(log, *intent) else { return Ok(()) };
            field("question", format_args!("was {} (event {intent}) done?", call.tool))?;
            field("because", one_line(why))?;
            field("input", call.input)?;
            field("key", call.key)?;
            field("tried", format_args!("{}", count(call.drives, "drive")))?;
            field("if it was", format_args!("relight resolve {run} {intent} --outcome JSON{store}"))?;
            field("if it failed", format_args!("relight resolve {run} {intent} --failed MESSAGE{store}"))?;
            field("if not", format_args!("relight resolve {run} {intent} --not-done{store}"))?;
            field("then", format_args!("relight resume {run} --agent FILE{store}"))
        }
        WaitReason::Budget { limit } => {
            field("reached", format_args!("the limit on {limit}"))?;
            field("go on with", format_args!("relight resume {run} --agent FILE --raise {limit}=N{store}"))
        }
        other => field("for", format_args!("{other:?}")),
    }
}

struct OpenCall<'a> {
    tool: &'a str,
    input: String,
    key: &'a str,
    /// How many drives met it open, the first included.
    drives: u64,
}

fn open_call(log: &ReadLog, intent: Seq) -> Option<OpenCall<'_>> {
    let OpenIntent::ToolCall { tool, .. } = log.state.progress()?.open.get(&intent)? else { return None };
    let is_drive = |envelope: &&EventEnvelope| matches!(envelope.event, Event::DriveStarted { .. });
    let later = log.events.iter().filter(|envelope| envelope.seq > intent).filter(is_drive).count();
    log.events.iter().find(|envelope| envelope.seq == intent).and_then(|envelope| match &envelope.event {
        Event::ToolCallRequested { input, idempotency_key, .. } => Some(OpenCall {
            tool,
            input: input.to_string(),
            key: idempotency_key.as_deref().unwrap_or("none"),
            drives: 1 + later as u64,
        }),
        _ => None,
    })
}

fn field(name: &str, value: impl std::fmt::Display) -> Result<(), Failure> {
    output::line(format_args!("  {0}{name:<12}{0:#} {value}", style::DIM))
}
