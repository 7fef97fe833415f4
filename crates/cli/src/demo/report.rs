//! The demo's last page: which drive did what, what is left in the world, and the verdict.

use relight::RunId;

use super::{
    judge::{self, Call, Check, Facts, Fate},
    stage::Stage,
};
use crate::{
    failure::Failure,
    output::{
        self, style,
        text::{count, shell_word, shortened},
    },
};

pub(super) fn print(facts: &Facts, checks: &[Check], run: RunId, stage: &Stage) -> Result<(), Failure> {
    if let Ok((log, _)) = &facts.log {
        table(facts, &judge::calls(log))?;
    }
    world(facts)?;
    verdict(checks)?;
    next_steps(run, stage)
}

/// One row a call, one column a drive.
fn table(facts: &Facts, calls: &[Call]) -> Result<(), Failure> {
    output::line("")?;
    let heads = facts.drives.each_ref().map(|drive| format!("{:<18}", format!("process {}", drive.process)));
    output::line(format_args!("{0}{1:<16}{2}{0:#}", style::BOLD, "what was done", heads.concat()))?;
    let mut asked = 0;
    for call in calls {
        let name = if call.name == "the model" {
            asked += 1;
            format!("model, answer {asked}")
        } else {
            call.name.clone()
        };
        let cells = (0..facts.drives.len())
            .map(|drive| cell(call, drive))
            .map(|(style, word)| format!("{style}{word:<18}{style:#}"));
        output::line(format_args!("{name:<16}{}", cells.collect::<String>().trim_end()))?;
    }
    Ok(())
}

fn cell(call: &Call, drive: usize) -> (anstyle::Style, &'static str) {
    let is_model = call.name == "the model";
    let settled_in = call.settled_in.unwrap_or(usize::MAX);
    match drive {
        _ if drive < call.asked_in => (style::DIM, ""),
        _ if drive > settled_in => (style::DIM, "replayed"),
        _ if drive < settled_in => {
            (style::BAD, if is_model { "✗ cut by SIGKILL" } else { "✗ done, SIGKILL" })
        }
        _ if call.asked_in == drive => (style::GOOD, "✓ live"),
        _ if is_model => (style::GOOD, "✓ asked again"),
        _ => (style::WAITS, "✓ looked up"),
    }
}

fn world(facts: &Facts) -> Result<(), Failure> {
    output::line("")?;
    let whole = facts.requests.iter().filter(|request| request.fate == Fate::Answered).count();
    let cut = facts.requests.len() - whole;
    let requests = count(facts.requests.len() as u64, "request");
    fact("model server", &format!("{requests}: {whole} answered in full, {cut} cut off by a kill"))?;
    let lines = count(facts.ledger.len() as u64, "line");
    fact("ledger.jsonl", &lines)?;
    for line in &facts.ledger {
        fact("", &with_short_key(line))?;
    }
    match &facts.log {
        Ok((log, link)) => {
            let events = count(log.len() as u64, "event");
            fact(
                "relight.db",
                &format!("{events}, chain verified up to {}", shortened(&link.to_string(), 20)),
            )
        }
        Err(error) => fact("relight.db", &error.to_string()),
    }
}

/// The line with the beginning of its key, which is as long as all the rest.
fn with_short_key(line: &str) -> String {
    let key = line.split('"').find(|part| part.len() == 64 && part.chars().all(|c| c.is_ascii_hexdigit()));
    match key {
        Some(key) => line.replace(key, &format!("{}…", &key[..8])),
        None => shortened(line, 80),
    }
}

fn verdict(checks: &[Check]) -> Result<(), Failure> {
    output::line("")?;
    for check in checks {
        let (style, mark) = if check.holds { (style::GOOD, "✓") } else { (style::BAD, "✗") };
        output::line(format_args!("{style}{mark}{style:#} {}", check.what))?;
        if !check.holds {
            fact("", &check.found)?;
        }
    }
    let all_hold = checks.iter().all(|check| check.holds);
    let (style, words) = if all_hold {
        (style::GOOD.bold(), "Killed twice, and nothing was lost, nothing happened twice.")
    } else {
        (style::BAD, "Something was lost, or happened twice.")
    };
    output::line(format_args!("\n{style}{words}{style:#}"))
}

fn next_steps(run: RunId, stage: &Stage) -> Result<(), Failure> {
    if stage.is_kept() {
        let store = shell_word(&stage.store().display().to_string());
        output::line(format_args!("{0}relight show {run} --store {store}{0:#}", style::DIM))
    } else {
        let what = "`relight demo --keep DIR` keeps store, ledger and agent for a closer look.";
        output::line(format_args!("{0}{what}{0:#}", style::DIM))
    }
}

fn fact(name: &str, what: &str) -> Result<(), Failure> {
    output::line(format_args!("{0}{name:<16}{0:#}{what}", style::BOLD))
}
