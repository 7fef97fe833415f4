//! Real processes on one file: killed, started together, kept from growing or from writing.
//!
//! A test starts itself again as the child; what the child does stands in the same test.
#![cfg(all(feature = "sqlite", unix))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod support;

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use relight_conformance::{SampleRun, SplitMix};
use relight_store::{EventStore, RunId, SqliteOptions, SqliteStore, StoreError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::FILE;

/// Where the child finds the store; a process without it is the parent.
const STORE: &str = "RELIGHT_TEST_STORE";

fn child_store() -> Option<PathBuf> {
    env::var_os(STORE).map(PathBuf::from)
}

/// This test again, as a child.
fn child(executable: &Path, test: &str, store: &Path) -> Command {
    let mut command = Command::new(executable);
    command.args(["--exact", test, "--nocapture", "--quiet"]).env(STORE, store);
    command
}

fn this() -> PathBuf {
    env::current_exe().unwrap()
}

/// Waits for a child that is expected to end well, having run its one test.
fn finish(child: Child, what: &str) {
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{what}: {}\n{text}", output.status);
}

fn start(mut child: Command) -> Child {
    child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn sigkill_loses_nothing_that_was_answered() {
    if let Some(path) = child_store() {
        return append_until_killed(&path).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let mut random = SplitMix::new(7);
    let mut answered: Vec<(RunId, u64)> = Vec::new();
    for _ in 0..6 {
        let mut child = child(&this(), "sigkill_loses_nothing_that_was_answered", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 20 + random.below(100);
        for line in lines {
            let line = line.unwrap();
            let Some(answer) = line.strip_prefix("answered ") else { continue };
            let (run, events) = answer.split_once(' ').unwrap();
            answered.push((run.parse().unwrap(), events.parse().unwrap()));
            left = left.saturating_sub(1);
            if left == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(answered.len() >= 6 * 20);
    for (run, events) in answered {
        let log = store.read_log(run).await.unwrap();
        assert!(log.len() as u64 >= events, "run {run} has {} events of {events}", log.len());
        assert_eq!(log.len() % 3, 0, "run {run} holds half a batch");
    }
}

/// Eight runs at once, each batch of three events; says what was answered.
async fn append_until_killed(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let runs = (0..8).map(|_| async {
        let mut run = SampleRun::new();
        // Longer than anybody lets it live.
        for _ in 0..1_000_000 {
            let head = store.append(run.batch(3, 500)).await.unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "answered {} {}", run.id(), head.seq).unwrap();
            out.flush().unwrap();
        }
    });
    futures::future::join_all(runs).await;
}

#[tokio::test]
async fn eight_processes_open_a_new_file_at_once_and_none_fails() {
    const EACH: u64 = 20;
    if let Some(path) = child_store() {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut run = SampleRun::new();
        for _ in 0..EACH {
            store.append(run.batch(2, 200)).await.unwrap();
        }
        return;
    }
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let children: Vec<Child> = (0..8)
            .map(|_| start(child(&this(), "eight_processes_open_a_new_file_at_once_and_none_fails", &path)))
            .collect();
        for child in children {
            finish(child, &format!("round {round}"));
        }
        let store = SqliteStore::open(&path).await.unwrap();
        let runs = store.list_runs(&Default::default()).await.unwrap().items;
        assert_eq!(runs.len(), 8, "round {round}");
        for run in runs {
            assert_eq!(store.read_log(run.run_id).await.unwrap().len() as u64, 2 * EACH, "round {round}");
        }
    }
}

#[tokio::test]
async fn processes_that_append_to_the_same_run_never_overwrite_each_other() {
    const EACH: usize = 15;
    let run = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().unwrap();
    if let Some(path) = child_store() {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut won = 0;
        while won < EACH {
            let mut sample = SampleRun::with_id(run);
            if let Some(head) = store.head(run).await.unwrap() {
                sample.batch(head.seq.number(), 50);
            }
            match store.append(sample.batch(1, 50)).await {
                Ok(_) => won += 1,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let test = "processes_that_append_to_the_same_run_never_overwrite_each_other";
    let children: Vec<Child> = (0..4).map(|_| start(child(&this(), test, &path))).collect();
    for child in children {
        finish(child, "a rival");
    }
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(store.read_log(run).await.unwrap().len(), 4 * EACH);
}

#[tokio::test]
async fn a_file_size_limit_is_named_and_a_raised_one_lets_the_same_handle_go_on() {
    if let Some(path) = child_store() {
        let hard = getrlimit(Resource::Fsize).maximum;
        setrlimit(Resource::Fsize, Rlimit { current: Some(400_000), maximum: hard }).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        let mut run = SampleRun::new();
        let (refused, error) = loop {
            let batch = run.batch(1, 20_000);
            if let Err(error) = store.append(batch.clone()).await {
                break (batch, error);
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("ulimit"), "{error}");
        assert!(store.read_log(run.id()).await.unwrap().len() > 5);
        setrlimit(Resource::Fsize, Rlimit { current: hard, maximum: hard }).unwrap();
        assert_eq!(store.append(refused.clone()).await.unwrap(), refused.head());
        store.append(run.batch(1, 20_000)).await.unwrap();
        assert_eq!(store.read_log(run.id()).await.unwrap().len() as u64, run.head().unwrap().seq.number());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let test = "a_file_size_limit_is_named_and_a_raised_one_lets_the_same_handle_go_on";
    // The signal of a file that may not grow kills a process that does not ignore it.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(this());
    shell.args(["--exact", test, "--nocapture", "--quiet"]).env(STORE, &path);
    finish(start(shell), "the limited child");
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_read_and_says_so_on_append() {
    if let Some(path) = child_store() {
        let store = SqliteStore::open(&path).await.unwrap();
        let runs = store.list_runs(&Default::default()).await.unwrap().items;
        assert_eq!(store.read_log(runs[0].run_id).await.unwrap().len(), 2);
        let error = store.append(SampleRun::new().batch(1, 10)).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(
            error.to_string().contains(FILE) && error.to_string().contains("cannot be written"),
            "{error}"
        );
        let options = SqliteOptions::default();
        let error = SqliteStore::open_with(path.with_file_name("new.db"), options).await.unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
        assert!(error.to_string().contains("this user may make none in"), "{error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    // The store stays open here: without its log and index beside it SQLite cannot read a file that it may not write.
    let store = SqliteStore::open(&path).await.unwrap();
    store.append(SampleRun::new().batch(2, 10)).await.unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
    }
    // Another user may not reach the test where it was built. Another process copies it: Linux runs no file that is
    // open for writing, and a test beside this one may fork just while it is open here.
    let executable = folder.path().join("child");
    let copied = Command::new("install").args(["-m", "555"]).arg(this()).arg(&executable).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let test = "a_file_that_may_only_be_read_is_read_and_says_so_on_append";
    let mut child = child(&executable, test, &path);
    if rustix::process::geteuid().is_root() {
        // Nothing is read-only for root.
        child.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    finish(start(child), "the child that may only read");
    // Else the folder could not be removed.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

const NOBODY: u32 = 65_534;
