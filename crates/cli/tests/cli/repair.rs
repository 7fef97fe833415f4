//! `cancel`, and `resolve` where there is nothing to resolve.

use relight_testkit::{Answer, At, Script};

use crate::support::{World, until_stalled, wait};

#[tokio::test]
async fn a_cancelled_run_is_over_for_its_driver_too() {
    let world = World::new(Script::new().turn(Answer::text("one two").stall(At::Events(4)))).await;
    let child = world.spawn_run();
    until_stalled(&world).await;
    let run = world.only_run().await;
    world.relight(&format!("cancel {run} --by somebody")).await.ended(0);
    world.server.release();
    let ran = wait(child).await.ended(9);
    assert!(ran.stderr.contains("another driver is ahead"), "{ran:?}");
    assert_eq!(world.kinds().await.last(), Some(&"run_cancelled"));
    world.relight(&format!("resume {run} --agent agent.toml")).await.failed(3, &["was cancelled"]);
    world.relight(&format!("cancel {run}")).await.failed(9, &["has ended (cancelled)"]);
    let listed = world.relight("list --json --status cancelled").await.ended(0).json();
    assert_eq!(listed["run_id"], run.to_string());
}

#[tokio::test]
async fn only_an_open_tool_call_can_be_resolved() {
    let world = World::new(Script::new().turn(Answer::error(529, "overloaded_error", "Overloaded"))).await;
    world.run().await.failed(5, &["overloaded", "relight resume"]);
    let run = world.only_run().await;
    let before = world.log(run).await;
    world.relight(&format!("resolve {run} 3 --not-done")).await.failed(9, &["event 3", "not a tool call"]);
    world.relight(&format!("resolve {run} 99 --not-done")).await.failed(9, &["event 99"]);
    world.relight(&format!("resolve {run} 3 --outcome nonsense")).await.failed(2, &["--outcome is not JSON"]);
    world.relight(&format!("resolve {run} 3 --not-done --failed x")).await.ended(2);
    assert_eq!(world.log(run).await, before);
}
