//! SIGKILL at the worst moments, then `resume`.

use relight_testkit::{Answer, At, Script};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{World, is_alive, kill, kill_by_id, until, until_stalled, wait};

/// Books, then hangs until it is killed, unless it was asked to answer.
fn pay(reconcile: &str) -> String {
    format!(
        r#"
[[tools]]
kind = "command"
name = "pay"
description = "Pays."
effect = "write"
program = "sh"
args = ["-c", "read -r paid; echo $RELIGHT_IDEMPOTENCY_KEY $paid >> paid.txt; test -e answers || sleep 300; echo '{{\"paid\":true}}'"]
{reconcile}
"#
    )
}

const LOOKS: &str = r#"reconcile = { program = "sh", args = ["-c", '''
if grep -q $RELIGHT_IDEMPOTENCY_KEY paid.txt; then echo '{"status":"done","outcome":{"found":true}}'; else echo '{"status":"not_done"}'; fi
'''] }"#;

/// Runs until the payment is made and nobody has written that down, and kills the driver there.
async fn killed_after_paying(reconcile: &str) -> World {
    let world = World::calling("pay", json!({"cents": 5}), &pay(reconcile)).await;
    let child = world.spawn_run();
    until("the payment", || world.read("paid.txt").ends_with('\n')).await;
    kill(&child, Signal::KILL);
    wait(child).await.ended(137);
    assert_eq!(world.kinds().await.last(), Some(&"tool_call_requested"));
    world
}

#[tokio::test]
async fn a_write_that_happened_is_found_and_not_repeated() {
    let world = killed_after_paying(LOOKS).await;
    let run = world.only_run().await;
    let ran = world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    assert_eq!(ran.stdout, "All done.\n");
    assert_eq!(world.read("paid.txt").lines().count(), 1);
    let results = world.server.requests()[1].body.clone().unwrap();
    assert!(results.tool_results()[0].to_string().contains("found"), "{results:?}");
}

#[tokio::test]
async fn a_write_that_did_not_happen_is_made_once() {
    let world = killed_after_paying(LOOKS).await;
    // The bank has lost the order; only whoever looks into its books can know.
    std::fs::write(world.path("paid.txt"), "").unwrap();
    std::fs::write(world.path("answers"), "").unwrap();
    let run = world.only_run().await;
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    assert_eq!(world.read("paid.txt").lines().count(), 1);
    let log = serde_json::to_string(&world.log(run).await).unwrap();
    let key = world.read("paid.txt").split(' ').next().unwrap().to_owned();
    assert!(log.contains(&key), "the key is another on the second attempt");
}

#[tokio::test]
async fn a_write_that_nobody_can_look_up_waits_for_a_person_who_resolves_it() {
    for (word, lines) in [("--outcome {\"paid\":\"by\"}", 1), ("--not-done", 2), ("--failed refused", 1)] {
        let world = killed_after_paying("").await;
        let run = world.only_run().await;
        let waiting = world.relight(&format!("resume {run} --agent agent.toml")).await;
        let waiting =
            waiting.failed(4, &["whether pay (event 5", "relight resolve", "--not-done", "no `reconcile`"]);
        assert!(waiting.stderr.contains(&run.to_string()), "{waiting:?}");
        assert_eq!(world.relight("list --json --status needs_reconciliation").await.json_lines().len(), 1);
        let shown = world.relight(&format!("show {run}")).await.ended(0).stdout;
        let key = world.read("paid.txt").split(' ').next().unwrap().to_owned();
        for part in ["was pay (event 5) done?", r#"{"cents":5}"#, &key, "relight resolve", "2 drives"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        // Resuming again asks again and does nothing.
        world.relight(&format!("resume {run} --agent agent.toml")).await.ended(4);
        assert_eq!(world.read("paid.txt").lines().count(), 1);

        std::fs::write(world.path("answers"), "").unwrap();
        world.relight(&format!("resolve {run} 5 {word} --by somebody")).await.ended(0);
        assert_eq!(
            world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0).stdout,
            "All done.\n"
        );
        assert_eq!(world.read("paid.txt").lines().count(), lines, "{word}");
        assert!(world.relight(&format!("show {run}")).await.stdout.contains("by somebody: event 5"));
    }
}

#[tokio::test]
async fn a_write_that_fails_is_not_handed_to_the_model_to_be_tried_again() {
    let failing = "args = [\"-c\", \"echo x >> tried; echo the bank hung up >&2; exit CODE\"]";
    let tool = format!(
        "[[tools]]\nkind = \"command\"\nname = \"pay\"\ndescription = \"Pays.\"\neffect = \"write\"\nprogram = \"sh\"\n{failing}"
    );
    let world = World::calling("pay", json!({}), &tool.replace("CODE", "1")).await;
    world.run().await.failed(4, &["exit code 1: the bank hung up", "pay"]);
    assert_eq!((world.server.requests().len(), world.read("tried").lines().count()), (1, 1));

    // Its author can say that surely nothing was done.
    let world = World::calling("pay", json!({}), &tool.replace("CODE", "75")).await;
    world.run().await.ended(0);
    let results = world.server.requests()[1].body.clone().unwrap();
    let result = results.tool_results()[0];
    assert_eq!(result["is_error"], true);
    assert!(result.to_string().contains("the bank hung up"), "{result}");
}

#[tokio::test]
async fn a_command_dies_with_its_driver_and_all_that_it_started() {
    let program =
        "echo $$ > command; sleep 300 & echo $! > child; setsid sleep 300 & echo $! > escaped; sleep 300";
    let tool = format!(
        "[[tools]]\nkind = \"command\"\nname = \"work\"\ndescription = \"\"\neffect = \"write\"\nprogram = \"sh\"\nargs = [\"-c\", '''{program}''']"
    );
    let world = World::calling("work", json!({}), &tool).await;
    let child = world.spawn_run();
    until("the start of all", || world.read("escaped").ends_with('\n')).await;
    let pids = ["command", "child", "escaped"].map(|name| world.read(name));
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    kill(&child, Signal::KILL);
    wait(child).await.ended(137);
    until("the end of all", || !pids.iter().any(|pid| is_alive(pid))).await;
}

#[tokio::test]
async fn an_earlier_attempt_that_does_not_end_is_left_to_a_person() {
    let world = killed_after_paying(&format!("wait_for_earlier_ms = 50\n{LOOKS}")).await;
    let run = world.only_run().await;
    let log = world.log(run).await;
    let relight::Event::ToolCallRequested { idempotency_key: Some(key), .. } = &log.last().unwrap().event
    else {
        panic!("{log:?}")
    };
    // A process that the guard did not get hold of: it carries the key in its environment.
    let mut survivor = world.command_of("sleep", "300");
    let mut survivor = survivor.env("RELIGHT_IDEMPOTENCY_KEY", key).spawn().unwrap();
    world.relight(&format!("resume {run} --agent agent.toml")).await.failed(4, &["still run", key]);
    assert_eq!(world.read("paid.txt").lines().count(), 1);
    survivor.kill().await.unwrap();
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    assert_eq!(world.read("paid.txt").lines().count(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_lost_its_guard_is_still_waited_for() {
    let program = "echo $$ > pid; echo $RELIGHT_IDEMPOTENCY_KEY >> paid.txt; exec sleep 300";
    let tool = format!(
        "[[tools]]\nkind = \"command\"\nname = \"pay\"\ndescription = \"\"\neffect = \"write\"\nprogram = \"sh\"\n\
         args = [\"-c\", '''{program}''']\nwait_for_earlier_ms = 50\n{LOOKS}"
    );
    let world = World::calling("pay", json!({}), &tool).await;
    let child = world.spawn_run();
    until("the payment", || world.read("paid.txt").ends_with('\n')).await;
    let command = world.read("pid");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", command.trim())).unwrap();
    let guard = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap();
    kill_by_id(guard);
    let ran = wait(child).await.ended(4);
    assert!(ran.stderr.contains("guard is gone") && ran.stderr.contains("still run"), "{ran:?}");
    assert!(is_alive(&command));
    kill_by_id(&command);
    until("the end of the command", || !is_alive(&command)).await;
    let run = world.only_run().await;
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    assert_eq!(world.read("paid.txt").lines().count(), 1);
}

#[tokio::test]
async fn a_killed_ledger_entry_is_there_once() {
    let ledger = "[[tools]]\nkind = \"ledger\"\npath = \"ledger.jsonl\"";
    let script = Script::new()
        .turn(Answer::tool_use("toolu_1", "ledger", json!({"amount": 7})))
        .attempts([Answer::text("one two").stall(At::Events(4)), Answer::text("one two")]);
    let world = World::new(script).await;
    world.agent(ledger);
    let child = world.spawn_run();
    until_stalled(&world).await;
    kill(&child, Signal::KILL);
    wait(child).await.ended(137);
    let run = world.only_run().await;
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    let ledger = world.read("ledger.jsonl");
    assert_eq!(ledger.lines().count(), 1, "{ledger}");
    assert!(ledger.contains(r#""entry":{"amount":7}"#), "{ledger}");
    assert_eq!(world.server.requests().len(), 3);
}

#[tokio::test]
async fn a_run_that_is_driven_elsewhere_is_left_to_its_driver() {
    let world = World::new(Script::new().turn(Answer::text("one two").stall(At::Events(4)))).await;
    let child = world.spawn_run();
    until_stalled(&world).await;
    let run = world.only_run().await;
    let pid = child.id().unwrap().to_string();
    world.relight(&format!("resume {run} --agent agent.toml")).await.failed(9, &[&run.to_string(), &pid]);
    world.relight(&format!("resume {run} --agent agent.toml --raise steps=9")).await.failed(9, &[&pid]);
    world.server.release();
    wait(child).await.ended(0);
}
