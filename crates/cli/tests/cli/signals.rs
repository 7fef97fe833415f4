//! SIGINT and SIGTERM end a drive cleanly, and the run goes on from there.

use relight_testkit::{Answer, At, Script};
use rustix::process::Signal;

use crate::support::{RELIGHT, World, finish, is_alive, kill, until, until_stalled, wait};

async fn check(signal: Signal, code: i32) {
    let script = Script::new()
        .attempts([Answer::text("one two three").stall(At::Events(5)), Answer::text("one two three")]);
    let world = World::new(script).await;
    let child = world.command("run --agent agent.toml --text go").spawn().unwrap();
    until_stalled(&world).await;
    kill(&child, signal);
    let ran = wait(child).await.failed(code, &["interrupted", "relight resume"]);
    assert_eq!(world.kinds().await, ["run_started", "drive_started", "model_call_requested"]);

    // The command that it proposes goes on with the run, as it stands there.
    let mut shell = world.command_of("/bin/sh", "-c");
    let bin = std::path::Path::new(RELIGHT).parent().unwrap();
    shell.arg(ran.proposed()).env("PATH", bin);
    assert_eq!(finish(shell).await.ended(0).stdout, "one two three\n");
    assert_eq!(world.server.requests().len(), 2);
}

#[tokio::test]
async fn ctrl_c_ends_a_drive_resumably() {
    check(Signal::INT, 130).await;
}

#[tokio::test]
async fn sigterm_ends_a_drive_resumably() {
    check(Signal::TERM, 143).await;
}

#[tokio::test]
async fn a_signal_ends_the_command_that_a_tool_runs() {
    let world = World::calling("work", serde_json::json!({}), HANGING).await;
    let child = world.spawn_run();
    until("the command's start", || world.read("pid").ends_with('\n')).await;
    kill(&child, Signal::INT);
    wait(child).await.ended(130);
    until("the end of the command", || !is_alive(&world.read("pid"))).await;
}

const HANGING: &str = r#"
[[tools]]
kind = "command"
name = "work"
description = "Hangs."
effect = "idempotent"
program = "sh"
args = ["-c", "echo $$ > pid; sleep 300"]
"#;
