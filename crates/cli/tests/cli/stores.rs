//! Stores that cannot be used: missing, unwritable, full, of another kind, or of a newer version.

use relight::{
    Seq,
    core::{Record, chain},
    store::{Append, BatchId, Expect},
};

use serde_json::json;

use crate::support::{RELIGHT, World, finish};

#[tokio::test]
async fn a_command_that_only_looks_leaves_no_store_behind() {
    let world = World::saying("ok").await;
    for command in ["list", "verify", "show 0190f5d2", "cancel 0190f5d2"] {
        world.relight(command).await.failed(6, &["no store at relight.db", "relight run", "--store"]);
    }
    assert!(!world.path("relight.db").exists());
}

#[tokio::test]
async fn the_store_is_named_by_option_or_variable() {
    let world = World::saying("ok").await;
    world.relight("run --agent agent.toml --text hi --store sqlite:a.db").await.ended(0);
    let mut command = world.command("run --agent agent.toml --text hi");
    finish({
        command.env("RELIGHT_STORE", "b.db");
        command
    })
    .await
    .ended(0);
    for store in ["a.db", "b.db"] {
        assert_eq!(world.relight(&format!("--store {store} list --json")).await.json_lines().len(), 1);
    }
    world
        .relight("list --store postgres://me:hunter2@host/db")
        .await
        .failed(6, &["postgres://…", "sqlite:PATH"]);
}

#[tokio::test]
async fn many_runs_at_once_share_a_file_and_none_fails() {
    let ledger = "[[tools]]\nkind = \"ledger\"\npath = \"ledger.jsonl\"";
    let world = World::calling("ledger", json!({"n": 1}), ledger).await;
    for round in 1..=5 {
        // The first round races for making the file, too.
        let runs: Vec<_> =
            (0..8).map(|_| world.command("run --agent agent.toml --text go").spawn().unwrap()).collect();
        for run in runs {
            assert_eq!(crate::support::wait(run).await.ended(0).stdout, "All done.\n");
        }
        let listed = world.relight("list --verify --json --status completed").await.ended(0);
        assert_eq!(listed.json_lines().len(), round * 8);
        assert_eq!(world.read("ledger.jsonl").lines().count(), round * 8);
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_written_is_named() {
    let world = World::saying("ok").await;
    let args = "run --agent agent.toml --text hi --store";
    world.relight(&format!("{args} no/such/folder.db")).await.failed(6, &["no/such", "check the path"]);
    std::fs::write(world.path("file"), "x").unwrap();
    world.relight(&format!("{args} file/relight.db")).await.failed(6, &["file/relight.db"]);
    std::fs::write(world.path("letter.txt"), "Dear customer, this is no database. ".repeat(100)).unwrap();
    world
        .relight(&format!("{args} letter.txt"))
        .await
        .failed(6, &["letter.txt is no Relight store", "nothing was changed"]);
    assert!(world.read("letter.txt").starts_with("Dear customer"));
}

#[tokio::test]
async fn a_store_that_could_not_be_resumed_from_is_refused() {
    let world = World::saying("ok").await;
    for command in ["list", "run --agent agent.toml --text hi"] {
        let ran = world.relight(&format!("{command} --store memory:")).await;
        ran.failed(2, &["a store in memory", "name a file"]);
    }
    assert!(world.server.requests().is_empty());
}

#[tokio::test]
async fn a_disk_that_is_full_loses_nothing() {
    let world = World::saying("Hello.").await;
    world.run().await.ended(0);
    let before = world.only_run().await;
    let log = world.log(before).await;
    // No file may grow beyond this: the store has reached it.
    let mut limited = world.command_of("sh", "-c");
    limited.arg("ulimit -f 8; exec \"$0\" run --agent agent.toml --text more").arg(RELIGHT);
    finish(limited).await.failed(6, &["no room", "relight.db"]);
    assert_eq!(world.log(before).await, log);
    world.relight("verify").await.ended(0);
    world.relight("run --agent agent.toml --text more").await.ended(0);
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_left_alone() {
    let world = World::saying("ok").await;
    world.run().await.ended(0);
    world.tamper("PRAGMA user_version = 999").await;
    for command in ["list", "verify", "run --agent agent.toml --text hi"] {
        world.relight(command).await.failed(6, &["relight.db", "schema version 999", "update Relight"]);
    }
}

#[tokio::test]
async fn a_log_of_a_newer_version_is_left_alone_and_named() {
    let world = World::saying("ok").await;
    world.run().await.ended(0);
    // Another run, whose second event is of a kind that comes some day.
    let (store, run) = (world.store().await, world.only_run().await);
    let first = &world.log(run).await[0];
    let newer = relight::RunId::from_parts(first.recorded_at, [9; 10]);
    let first = relight::EventEnvelope { run_id: newer, ..first.clone() };
    let state = relight::RunState::fold([&first]).unwrap();
    let first = Record::seal(chain::GENESIS, &first).unwrap();
    let text = String::from_utf8(first.bytes.clone()).unwrap();
    let bytes = text.replace("run_started", "run_pondered").replace("\"seq\":1", "\"seq\":2").into_bytes();
    let seq = Seq::FIRST.next();
    let second = Record { seq, link: chain::link(first.link, &bytes), bytes, ..first.clone() };
    let append = Append {
        run: newer,
        expect: Expect::NewRun,
        epoch: None,
        batch: BatchId::random(),
        records: vec![first, second],
        summary: state.summary().unwrap(),
    };
    store.append(append).await.unwrap();

    world
        .relight(&format!("resume {newer} --agent agent.toml"))
        .await
        .failed(6, &["event 2", "newer version", "update"]);
    let shown = world.relight(&format!("show {newer}")).await.failed(6, &["event 2", "newer version"]);
    assert!(shown.stdout.contains("run started"), "{shown:?}");
    assert_eq!(world.relight("list --json").await.ended(0).json_lines().len(), 2);
    let listed = world.relight("list --verify").await.ended(6);
    assert!(listed.stdout.contains("NEWER") && listed.stderr.contains("1 of 2 runs"), "{listed:?}");
    assert!(world.relight("verify").await.ended(6).stdout.contains("NEWER"));
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    let exported = world.relight(&format!("export {newer}")).await.ended(0);
    assert_eq!(exported.stdout.lines().count(), 2);
}
