//! The `relight` binary itself: many at once on one file, killed at random moments, and over damaged files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use futures::future::join_all;
use relight_core::RunId;
use relight_testkit::{Answer, At, Progress, Script, ScriptedServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::timeout,
};

use crate::{
    agent::ANSWER,
    damage::Original,
    driver::within,
    random::{Random, seed},
    stage::new_run,
};

const PROCESSES: usize = 8;

const ROUNDS: usize = 6;

const KILLS: usize = 20;

/// What the model says: read, enter, run a command, answer. All answers but the first come with `pace`.
fn script(first: impl FnOnce(Answer) -> Answer, pace: Duration) -> Script {
    Script::new()
        .turn(first(Answer::tool_use("toolu_1", "read_file", json!({"path": "balance.txt"}))))
        .turn(Answer::tool_use("toolu_2", "ledger", json!({"amount": 12.5})))
        .turn(Answer::tool_use("toolu_3", "note", json!({"text": "paid"})))
        .turn(Answer::text(ANSWER))
        .pace(pace)
}

/// A folder with an agent file and a store, and its scripted model.
struct Desk {
    folder: TempDir,
    server: ScriptedServer,
}

impl Desk {
    async fn set(script: Script) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.toml"), AGENT).unwrap();
        fs::write(folder.path().join("balance.txt"), "9999").unwrap();
        Desk { folder, server: ScriptedServer::start(script).await.unwrap() }
    }

    fn relight(&self, args: &[&str]) -> Command {
        relight(&self.folder.path().join("relight.db"), args)
    }

    /// A command that drives, with this agent and its model.
    fn drive(&self, args: &[&str]) -> Command {
        let mut command = self.relight(args);
        command.arg("--agent").arg(self.folder.path().join("agent.toml"));
        command.args(["--base-url", &self.server.base_url(), "--json"]);
        command
    }

    /// Each run has one line in the ledger, and all its notes have one key.
    fn assert_each_write_is_done_once(&self, runs: &[RunId], context: &str) {
        let lines = |name: &str| -> Vec<String> {
            let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        };
        let ledger = lines("ledger.jsonl");
        assert_eq!(ledger.len(), runs.len(), "{context}: {ledger:?}");
        for run in runs {
            let run = run.to_string();
            assert_eq!(ledger.iter().filter(|line| line.contains(&run)).count(), 1, "{context}: {run}");
        }
        let notes: BTreeSet<String> = lines("notes.txt").into_iter().collect();
        assert_eq!(notes.len(), runs.len(), "{context}: {notes:?}");
    }
}

/// The binary under test, on a store of its own.
fn relight(store: &Path, args: &[&str]) -> Command {
    let binary = std::env::var_os("RELIGHT_BIN").map(PathBuf::from).filter(|path| path.is_file());
    let binary = binary.expect(
        "RELIGHT_BIN must name the relight binary: `cargo xtask test` builds it and says where it is; by hand it is \
         `cargo build -p relight-cli` and RELIGHT_BIN=target/debug/relight, as an absolute path",
    );
    let mut command = Command::new(binary);
    command.args(args).arg("--store").arg(store).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn finish(mut command: Command) -> Output {
    within("the end of the binary", command.output()).await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn eight_runs_at_once_on_one_file_all_complete() {
    // The first answer comes when all eight have asked, so that they are alive at the same time.
    let scripted = || script(|answer| answer.stall(At::Events(2)), Duration::ZERO);
    let mut desk = Desk::set(scripted()).await;
    let mut runs: Vec<RunId> = Vec::new();
    for round in 0..ROUNDS {
        // Every other time they meet on a file that is not there yet.
        if round % 2 == 0 {
            desk = Desk::set(scripted()).await;
            runs.clear();
        }
        let ids = [(); PROCESSES].map(|()| new_run());
        let mut children: Vec<Child> = ids.iter().map(|id| start(&desk, *id)).collect();
        // They open the store when they have read their input.
        for child in &mut children {
            child.stdin.take().unwrap().write_all(b"\"go\"").await.unwrap();
        }
        let all_stalled = desk.server.wait_for(|seen| {
            seen.iter().filter(|request| request.progress == Progress::Stalled).count() == PROCESSES
        });
        within("eight requests", all_stalled).await;
        desk.server.release();
        let ended = join_all(children.into_iter().map(Child::wait_with_output)).await;
        for output in ended {
            let output = output.unwrap();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() && stdout.contains(ANSWER), "round {round}: {stdout} {stderr}");
        }
        runs.extend(ids);
        desk.assert_each_write_is_done_once(&runs, &format!("round {round}"));
        let verified = finish(desk.relight(&["verify"])).await;
        assert!(verified.status.success(), "round {round}: {verified:?}");
        let listed = finish(desk.relight(&["list", "--json", "--status", "completed", "--limit", "0"])).await;
        assert_eq!(text(&listed.stdout).lines().count(), runs.len(), "round {round}: {listed:?}");
    }
}

fn start(desk: &Desk, run: RunId) -> Child {
    let mut command = desk.drive(&["run", "--input", "-", "--run-id", &run.to_string()]);
    command.stdin(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn killed_at_random_moments_it_resumes_and_does_each_write_once() {
    let seed = seed();
    let mut random = Random::new(seed);
    let desk = Desk::set(script(|answer| answer, Duration::from_millis(1))).await;
    let drive = |run: RunId, begun: bool| {
        let run = run.to_string();
        let verb = if begun { vec!["resume", &run] } else { vec!["run", "--text", "go", "--run-id", &run] };
        desk.drive(&verb).spawn().unwrap()
    };
    let calm = new_run();
    let started = Instant::now();
    let output = drive(calm, false).wait_with_output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let life = started.elapsed();

    let mut runs = vec![calm];
    let (mut kills, mut in_the_midst) = (0, 0);
    while kills < KILLS {
        let run = new_run();
        loop {
            let context = format!("seed {seed}, after {kills} kills");
            let begun = status(&desk, run).await;
            let mut child = drive(run, begun.is_some());
            let least = if kills < KILLS { random.below(life) } else { Duration::MAX };
            let Ok(status) = timeout(least, child.wait()).await else {
                child.kill().await.unwrap();
                kills += 1;
                in_the_midst += usize::from(self::status(&desk, run).await.as_deref() == Some("running"));
                continue;
            };
            let output = child.wait_with_output().await.unwrap();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert!(status.unwrap().success() && stdout.contains(ANSWER), "{context}: {stdout} {stderr}");
            runs.push(run);
            desk.assert_each_write_is_done_once(&runs, &context);
            break;
        }
    }
    let verified = finish(desk.relight(&["verify"])).await;
    assert!(verified.status.success(), "seed {seed}: {verified:?}");
    assert!(in_the_midst > 0, "seed {seed}: no kill met a run in its midst");
}

#[tokio::test]
async fn stopped_by_a_file_size_limit_in_mid_run_it_resumes_without_one_and_does_each_write_once() {
    let mut stopped_at = BTreeSet::new();
    // In blocks of 512 bytes.
    for blocks in (160..).step_by(48) {
        let desk = Desk::set(script(|answer| answer, Duration::ZERO)).await;
        // So large that each event which holds it needs several pages.
        fs::write(desk.folder.path().join("balance.txt"), "9".repeat(20_000)).unwrap();
        let run = new_run();
        let id = run.to_string();
        let limited = desk.drive(&["run", "--text", "go", "--run-id", &id]);
        let mut shell = Command::new("sh");
        shell.kill_on_drop(true);
        shell.arg("-c").arg(format!("ulimit -f {blocks}; exec \"$0\" \"$@\""));
        shell.arg(limited.as_std().get_program()).args(limited.as_std().get_args());
        let output = finish(shell).await;
        if output.status.success() {
            break;
        }
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(STORE_FAILED), "{blocks} blocks: {stderr}");
        assert!(stderr.contains("ulimit -f"), "{blocks} blocks: {stderr}");
        let begun = status(&desk, run).await;
        let proposes = stderr.contains(&format!("relight resume {id}"));
        assert_eq!(proposes, begun.is_some(), "{blocks} blocks: {stderr}");
        let verb =
            if begun.is_some() { vec!["resume", &id] } else { vec!["run", "--text", "go", "--run-id", &id] };
        let output = finish(desk.drive(&verb)).await;
        assert!(output.status.success(), "{blocks} blocks: {output:?}");
        desk.assert_each_write_is_done_once(&[run], &format!("{blocks} blocks"));
        assert!(finish(desk.relight(&["verify"])).await.status.success(), "{blocks} blocks");
        stopped_at.insert(desk.server.requests().len());
    }
    assert!(stopped_at.len() > 1, "it was stopped in one place only: {stopped_at:?}");
}

/// What the list says of a run; `None` where it does not have it, or there is no store yet.
async fn status(desk: &Desk, run: RunId) -> Option<String> {
    let listed = finish(desk.relight(&["list", "--json", "--limit", "0"])).await;
    let rows = text(&listed.stdout).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut own = rows.filter(|row| row["run_id"] == run.to_string());
    own.next().map(|row| row["status"]["is"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_damaged_log_is_named_by_run_and_event_and_the_others_are_verified() {
    let original = Original::make().await;
    let last = original.events();
    for (sql, event) in [
        ("UPDATE events SET bytes = CAST(replace(bytes, 'paid', 'owed') AS BLOB) WHERE run = :run AND seq = 11".to_owned(), 11),
        ("DELETE FROM events WHERE run = :run AND seq = 6".to_owned(), 6),
        (format!("DELETE FROM events WHERE run = :run AND seq = {last}"), last),
        (format!("INSERT INTO events SELECT run, {last} + 1, recorded_at, NULL, link, bytes FROM events WHERE run = :run AND seq = {last}"), last + 1),
        ("UPDATE events SET seq = -seq WHERE run = :run AND seq IN (3, 4);
          UPDATE events SET seq = 7 + seq WHERE run = :run AND seq < 0".to_owned(), 3),
    ] {
        let store = original.damaged(&sql).await;
        let victim = original.victim().to_string();
        for args in [&["verify"][..], &["verify", &victim], &["list", "--verify"]] {
            let output = finish(relight(&store, args)).await;
            let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(DAMAGED), "{args:?} {sql}: {shown}");
            let named = shown.lines().any(|line| line.contains(&victim) && line.contains(&format!("event {event}")));
            assert!(named || args[0] == "list", "{args:?} {sql}: {shown}");
            let marked = shown.lines().any(|line| line.contains(&victim) && line.contains("DAMAGED"));
            assert!(marked, "{args:?} {sql}: {shown}");
        }
        let listed = finish(relight(&store, &["list", "--verify", "--json"])).await;
        let rows: Vec<Value> =
            text(&listed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let verified: Vec<bool> = original
            .runs
            .iter()
            .map(|run| rows.iter().find(|row| row["run_id"] == run.to_string()).unwrap()["verified"] == true)
            .collect();
        assert_eq!(verified, [true, false, true], "{sql}: {rows:?}");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_marked_and_all_others_are_listed() {
    let original = Original::make().await;
    for damage in ["summary = 'gone'", "summary = '{}'", "id = x'00'"] {
        let store = original.damaged(&format!("UPDATE runs SET {damage} WHERE key = :run")).await;
        for args in [&["list"][..], &["list", "--verify"]] {
            let output = finish(relight(&store, args)).await;
            let shown = text(&output.stdout);
            assert_eq!(output.status.code(), Some(DAMAGED), "{damage}: {shown}");
            assert_eq!(
                shown.lines().filter(|line| line.contains("UNREADABLE")).count(),
                1,
                "{damage}: {shown}"
            );
            for run in [original.runs[0], original.runs[2]] {
                let listed = shown.lines().find(|line| line.contains(&run.to_string())).unwrap_or_default();
                assert!(listed.contains("completed"), "{damage}: {shown}");
            }
        }
    }
}

/// Exit codes.
const DAMAGED: i32 = 7;
const STORE_FAILED: i32 = 6;

const AGENT: &str = r#"
model = "model"
system = "Pay what is due."
provider = { max_retries = 0 }

[[tools]]
kind = "read_file"
root = "."

[[tools]]
kind = "ledger"
path = "ledger.jsonl"

[[tools]]
kind = "command"
name = "note"
description = "Notes."
effect = "idempotent"
program = "sh"
args = ["-c", "echo $RELIGHT_IDEMPOTENCY_KEY >> notes.txt; echo null"]
"#;
