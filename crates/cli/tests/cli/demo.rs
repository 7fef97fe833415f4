//! The demo, as fast as it goes.

use serde_json::Value;

use crate::support::World;

#[tokio::test]
async fn the_demo_kills_twice_and_finds_nothing_lost_and_nothing_done_twice() {
    let world = World::saying("unused").await;
    let ran = world.relight("demo --speed 0 --keep kept").await.ended(0);
    assert_eq!(ran.stderr, "");
    let told = ran.stdout.lines().filter(|line| !line.starts_with("relight show"));
    assert_eq!(told.filter(|line| line.chars().count() > 80).collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!(ran.stdout.matches("SIGKILL in the middle").count(), 1, "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("SIGKILL the money has left").count(), 1, "{}", ran.stdout);
    assert_eq!(ran.stdout.matches('●').count(), 3, "{}", ran.stdout);
    assert!(ran.stdout.contains("4 requests: 3 answered in full, 1 cut off"), "{}", ran.stdout);
    assert!(ran.stdout.contains("nothing was lost, nothing happened twice"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('✗') || ran.stdout.matches('✗').count() == 2, "{}", ran.stdout);

    // What it says is so: the facts are there to be looked at.
    let lines = world.relight("list --verify --json --store kept/relight.db").await.ended(0).json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["drives"], &lines[0]["verified"]), (&Value::from(3), &Value::from(true)));
    assert_eq!(world.read("kept/ledger.jsonl").lines().count(), 1);
    world.relight("demo --speed 0 --keep kept").await.failed(2, &["kept is not empty", "--keep"]);
}

#[tokio::test]
async fn the_demo_leaves_nothing_behind_unless_it_is_asked_to() {
    let world = World::saying("unused").await;
    world.relight("demo --speed 0").await.ended(0);
    let left: Vec<_> = std::fs::read_dir(world.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("relight-demo"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_demo_works_in_a_folder_with_an_odd_name_and_a_set_key() {
    let world = World::saying("unused").await;
    let mut command = world.command("demo --speed 0 --keep");
    command.arg("it's a demo").env("ANTHROPIC_API_KEY", "sk-unused").env("RELIGHT_STORE", "elsewhere.db");
    crate::support::finish(command).await.ended(0);
    assert!(!world.path("elsewhere.db").exists());
}

#[tokio::test]
async fn a_speed_that_is_none_is_refused() {
    let world = World::saying("unused").await;
    for speed in ["-1", "nan", "inf", "fast"] {
        world.relight(&format!("demo --speed={speed}")).await.ended(2);
    }
}
