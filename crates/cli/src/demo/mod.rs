//! `relight demo`: an agent's run, killed twice in mid flight and relit, with the proof that nothing happened twice.
//!
//! Everything but the model is real: the drives are processes of this binary, the store is a SQLite file, the kills are
//! SIGKILL. The model is a scripted server on loopback that streams at a human pace.

mod drive;
mod judge;
mod report;
mod screen;
mod script;
mod stage;

use std::{path::PathBuf, time::Duration};

use relight_testkit::{Progress, ScriptedServer};
use tokio::signal::unix::{SignalKind, signal};

use crate::{exit::Exit, failure::Failure};
use drive::Drive;
use judge::{Facts, Request};
use screen::Screen;
use stage::Stage;

/// See an agent's run killed twice and relit, with the proof that nothing happened twice
///
/// A support agent gives a customer's money back. Its process is killed by SIGKILL in the middle of a model's answer, and
/// again right after the money has left, before anybody has written that down. Needs no key, network or server.
///
/// So that both kills fall where they hurt, the scripted model pauses in the middle of its answer, and the bank is slow
/// to answer. The verdict is drawn from what is left: the server's requests, the ledger and the log.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight demo
  relight demo --speed 3
  relight demo --keep refund-demo     # then: relight show RUN --store refund-demo/relight.db")]
pub(crate) struct Args {
    /// How fast it goes: 2 is twice as fast, 0 does not wait at all
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    speed: f64,

    /// Keep the store, the ledger and the agent file in this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let cannot =
        |error: std::io::Error| Failure::new(Exit::Unexpected, format!("the demo cannot start: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    // What is dropped here cleans up: the drive's process and the folder.
    tokio::select! {
        shown = show(&args) => shown,
        _ = interrupt.recv() => Err(Failure::new(Exit::Interrupted, "the demo was interrupted")),
        _ = terminate.recv() => Err(Failure::new(Exit::Terminated, "the demo was terminated")),
    }
}

async fn show(args: &Args) -> Result<Exit, Failure> {
    let stage = Stage::set(args.keep.as_deref())?;
    let server = ScriptedServer::start(script::script(args.pace(WORD))).await.map_err(|error| {
        Failure::new(Exit::Unexpected, format!("the scripted model cannot start: {error}"))
    })?;
    let mut screen = Screen::new();
    screen.opening()?;

    let mut first = Drive::run(&stage, &server.base_url())?;
    let is_in_mid_answer = |drive: &Drive| {
        let half_sent = server.requests().iter().any(|request| request.progress == Progress::Stalled);
        half_sent && drive.words_of_answer() == script::WORDS_BEFORE_THE_KILL
    };
    show_until(&mut screen, &mut first, "starts the run", is_in_mid_answer).await?;
    tokio::time::sleep(args.pace(SUSPENSE)).await;
    screen.killed("in the middle of the model's answer")?;
    let first = first.kill().await?;
    let run = first.run()?;
    tokio::time::sleep(args.pace(BREATH)).await;

    let mut second = Drive::resume(&stage, &server.base_url(), run)?;
    let money_has_left = |drive: &Drive| drive.asked_for(script::WRITE) && !stage.ledger().is_empty();
    show_until(&mut screen, &mut second, "resumes it", money_has_left).await?;
    screen.money_has_left()?;
    tokio::time::sleep(args.pace(SUSPENSE)).await;
    screen.killed("the money has left, and nobody has written that down")?;
    let second = second.kill().await?;
    tokio::time::sleep(args.pace(BREATH)).await;

    let mut third = Drive::resume(&stage, &server.base_url(), run)?;
    screen.drive_began(&third, "resumes it")?;
    while let Some(notice) = third.next().await? {
        screen.show(&third, &notice)?;
    }
    let (third, output) = third.finish().await?;

    tokio::time::sleep(args.pace(SUSPENSE)).await;
    let facts = Facts {
        drives: [first, second, third],
        output,
        requests: server
            .requests()
            .iter()
            .map(|request| Request { turn: request.turn, fate: request.progress.into() })
            .collect(),
        ledger: stage.ledger(),
        log: stage.read_log(run).await,
    };
    let checks = judge::judge(&facts);
    report::print(&facts, &checks, run, &stage)?;
    if checks.iter().all(|check| check.holds) {
        Ok(Exit::Ok)
    } else {
        Err(Failure::new(Exit::Unexpected, "the demo did not go as it must"))
    }
}

/// Shows what a drive does until it has come to a point; what it does behind it is for its successor to find out.
async fn show_until(
    screen: &mut Screen,
    drive: &mut Drive,
    does: &str,
    reached: impl Fn(&Drive) -> bool,
) -> Result<(), Failure> {
    screen.drive_began(drive, does)?;
    while !reached(drive) {
        tokio::select! {
            notice = drive.next() => match notice? {
                Some(notice) => screen.show(drive, &notice)?,
                None => return Err(drive.ended_too_early().await),
            },
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
    Ok(())
}

impl Args {
    /// A time for people, at the speed that was asked for.
    fn pace(&self, time: Duration) -> Duration {
        if self.speed == 0.0 { Duration::ZERO } else { time.div_f64(self.speed) }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed == 0.0 || (0.01..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("expected 0, or a number from 0.01 to 1000".to_owned()),
    }
}

/// How long the model takes for a word.
const WORD: Duration = Duration::from_millis(100);

/// How long a reader gets to see that something is about to happen.
const SUSPENSE: Duration = Duration::from_millis(1200);

/// How long a reader gets to see that a process was killed.
const BREATH: Duration = Duration::from_millis(2200);

/// How often the world outside the drive is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
