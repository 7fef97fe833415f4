//! `list`, `show`, `tail`, `verify` and `export`, on whole logs and on damaged ones.

use relight::core::{ExportLine, chain::Verifier};
use relight_testkit::{Answer, At, Script};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{World, until_stalled, wait};

/// Three runs, oldest first: completed, failed, waiting for a raised limit.
async fn three_runs() -> (World, [String; 3]) {
    let script = Script::new().turn_with(|request| match request.last_text().as_str() {
        "fail" => Answer::text("No.").stop_reason("refusal"),
        _ => Answer::text("Fine."),
    });
    let world = World::new(script).await;
    let mut ids = Vec::new();
    for (number, (text, more)) in
        [("go", ""), ("fail", ""), ("wait", "[budgets]\nsteps = 0")].into_iter().enumerate()
    {
        world.agent(more);
        let id = format!("0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6{number}");
        let args = format!("run --agent agent.toml --text {text} --label is={text} --run-id {id}");
        world.relight(&args).await;
        ids.push(id);
    }
    (world, ids.try_into().unwrap())
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["run_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_shows_the_newest_first_and_filters() {
    let (world, [completed, failed, waiting]) = three_runs().await;
    let listed = async |args: &str| world.relight(&format!("list --json {args}")).await.ended(0).json_lines();
    assert_eq!(ids(&listed("").await), [&waiting, &failed, &completed]);
    assert_eq!(ids(&listed("--status completed --status failed").await), [&failed, &completed]);
    assert_eq!(ids(&listed("--label is=wait").await), [&waiting]);
    assert_eq!(ids(&listed("--limit 1").await), [&waiting]);
    let agent = listed("").await[2]["agent_hash"].as_str().unwrap().to_owned();
    assert_eq!(listed(&format!("--agent-hash {agent}")).await.len(), 3);
    assert_eq!(listed("--agent-hash another").await.len(), 0);

    let table = world.relight("list").await.ended(0).stdout;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("RUN"), "{table}");
    assert!(
        lines[1].starts_with(&waiting) && lines[1].contains("waiting") && lines[1].contains("is=wait"),
        "{table}"
    );
}

#[tokio::test]
async fn one_damaged_run_hides_no_other() {
    let (world, [completed, failed, waiting]) = three_runs().await;
    world
        .tamper(
            "UPDATE runs SET summary = 'not a summary' WHERE key = 2;
             UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Fine.', 'Foul.') AS BLOB) WHERE run = 1",
        )
        .await;
    let plain = world.relight("list").await.ended(7);
    let look = format!("see `relight verify {failed}`");
    assert!(
        plain
            .stdout
            .lines()
            .any(|line| line.starts_with(&failed) && line.contains("UNREADABLE") && line.contains(&look)),
        "{plain:?}"
    );
    assert!(
        plain.stdout.lines().any(|line| line.starts_with(&waiting) && line.contains("waiting")),
        "{plain:?}"
    );
    assert!(
        plain.stdout.lines().any(|line| line.starts_with(&completed) && line.contains("completed")),
        "{plain:?}"
    );

    let verified = world.relight("list --verify").await.ended(7);
    assert!(
        verified.stdout.lines().any(|line| line.starts_with(&completed) && line.contains("DAMAGED")),
        "{verified:?}"
    );
    assert!(
        verified.stdout.lines().any(|line| line.starts_with(&waiting) && line.contains("waiting")),
        "{verified:?}"
    );
    assert!(verified.stderr.contains("2 of 3 runs are damaged"), "{verified:?}");
    let lines = world.relight("list --verify --json").await.ended(7).json_lines();
    let of = |id: &str| lines.iter().find(|line| line["run_id"] == id).unwrap().clone();
    assert_eq!((&of(&completed)["verified"], &of(&waiting)["verified"]), (&json!(false), &json!(true)));
    assert!(of(&failed)["unreadable"].is_string(), "{lines:?}");

    // The others stay usable.
    world
        .relight(&format!("resume {completed} --agent agent.toml"))
        .await
        .failed(7, &[&completed, "event 4"]);
    world.relight(&format!("resume {waiting} --agent agent.toml --raise steps=5")).await.ended(0);
    world.relight("run --agent agent.toml --text go").await;
}

#[tokio::test]
async fn damage_is_found_and_named_by_run_and_event() {
    let cases = [
        ("UPDATE events SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Fine.', 'Foul.') AS BLOB) WHERE run = 1", "event 4"),
        ("DELETE FROM events WHERE run = 1 AND seq = 3", "event 3"),
        ("DELETE FROM events WHERE run = 1 AND seq = 5", "event 5"),
        ("UPDATE events SET seq = CASE seq WHEN 3 THEN -4 WHEN 4 THEN -3 ELSE seq END WHERE run = 1;
          UPDATE events SET seq = -seq WHERE run = 1 AND seq < 0", "event 3"),
        ("INSERT INTO events SELECT run, 6, recorded_at, batch, link, bytes FROM events WHERE run = 1 AND seq = 5;
          UPDATE runs SET head = 6 WHERE key = 1", "event 6"),
    ];
    for (sql, event) in cases {
        let world = World::saying("Fine.").await;
        world.run().await.ended(0);
        let run = world.only_run().await.to_string();
        world.relight(&format!("verify {run}")).await.ended(0);
        world.tamper(sql).await;
        for command in ["verify {}", "show {}", "resume {} --agent agent.toml"] {
            let ran = world.relight(&command.replace("{}", &run)).await;
            ran.failed(7, &[&run, event, "restore it from a copy"]);
        }
        let all = world.relight("verify").await.ended(7);
        assert!(all.stdout.contains("DAMAGED") && all.stdout.contains(event), "{all:?}");
    }
}

#[tokio::test]
async fn a_kept_link_finds_a_log_that_was_written_anew() {
    let world = World::saying("Fine.").await;
    world.run().await.ended(0);
    let run = world.only_run().await.to_string();
    let verified = world.relight(&format!("verify {run} --json")).await.ended(0).json();
    let head = verified["head"].as_str().unwrap();
    world.relight(&format!("verify {run} --head {head}")).await.ended(0);
    let within = world.relight(&format!("export {run}")).await.ended(0).json_lines()[1]["link"].clone();
    world.relight(&format!("verify {run} --head {}", within.as_str().unwrap())).await.ended(0);
    let other = format!("sha256:{}", "0".repeat(64));
    world.relight(&format!("verify {run} --head {other}")).await.failed(7, &[&run, &other, head]);
}

#[tokio::test]
async fn an_export_holds_every_record_with_its_link() {
    let world = World::saying("Fine.").await;
    world.run().await.ended(0);
    let run = world.only_run().await;
    let exported = world.relight(&format!("export {run}")).await.ended(0).stdout;
    let mut verifier = Verifier::new(run);
    let events: Vec<_> = exported
        .lines()
        .map(|line| verifier.accept(&line.parse::<ExportLine>().unwrap().0).unwrap())
        .collect();
    assert_eq!(events, world.log(run).await);

    world.relight(&format!("export {run} --output run.jsonl")).await.ended(0);
    assert_eq!(world.read("run.jsonl"), exported);
    world.relight(&format!("export {run} --output run.jsonl")).await.failed(2, &["run.jsonl", "exists"]);
    world.relight(&format!("export {run} --output no/run.jsonl")).await.failed(2, &["no/run.jsonl"]);
}

#[tokio::test]
async fn an_export_saves_what_is_left_of_a_damaged_log() {
    let world = World::saying("Fine.").await;
    world.run().await.ended(0);
    let run = world.only_run().await;
    world.tamper("DELETE FROM events WHERE run = 1 AND seq IN (2, 3)").await;
    let ran = world.relight(&format!("export {run}")).await.failed(7, &["2 events", "cannot be read"]);
    let seqs: Vec<_> = ran.json_lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 4, 5]);
}

#[tokio::test]
async fn a_run_is_shown_with_its_events_and_each_in_full() {
    let (world, [completed, _, waiting]) = three_runs().await;
    let shown = world.relight(&format!("show {completed}")).await.ended(0).stdout;
    for part in [&completed, "completed", "is=go", "run started", "model answered", "Fine.", "run completed"]
    {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let json = world.relight(&format!("show {completed} --json")).await.ended(0).json();
    assert_eq!(json["summary"]["status"]["is"], "completed");
    assert_eq!(json["events"].as_array().unwrap().len(), 5);
    let event = world.relight(&format!("show {completed} 4 --json")).await.ended(0).json();
    assert_eq!(event["event"]["kind"], "model_call_completed");
    assert!(world.relight(&format!("show {completed} 4")).await.ended(0).stdout.contains("\"end_turn\""));
    world.relight(&format!("show {completed} 9")).await.failed(2, &["no event 9", "event 5"]);
    let shown = world.relight(&format!("show {waiting}")).await.ended(0).stdout;
    assert!(shown.contains("waits for you") && shown.contains("--raise steps=N"), "{shown}");
}

#[tokio::test]
async fn a_tail_follows_a_run_to_its_end() {
    let world = World::new(Script::new().turn(Answer::text("one two three").stall(At::Events(5)))).await;
    let run = world.spawn_run();
    until_stalled(&world).await;
    let id = world.only_run().await;
    let mut tail = world.command(&format!("tail {id} --json")).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = async || -> String {
        let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        line["event"]["kind"].as_str().unwrap().to_owned()
    };
    // It shows what there is while the run still works.
    for kind in ["run_started", "drive_started", "model_call_requested"] {
        assert_eq!(next().await, kind);
    }
    world.server.release();
    for kind in ["model_call_completed", "run_completed"] {
        assert_eq!(next().await, kind);
    }
    wait(tail).await.ended(0);
    wait(run).await.ended(0);
    let last = world.relight(&format!("tail {id} --last 1")).await.ended(0).stdout;
    assert!(last.lines().count() == 1 && last.contains("run completed"), "{last}");
}

#[tokio::test]
async fn a_run_whose_driver_was_killed_is_said_to_have_none_until_it_is_resumed() {
    let script =
        Script::new().attempts([Answer::text("one two three").stall(At::Events(5)), Answer::text("one")]);
    let world = World::new(script).await;
    let mut driver = world.spawn_run();
    until_stalled(&world).await;
    let run = world.only_run().await;
    let shown = world.relight(&format!("show {run}")).await.ended(0).stdout;
    assert!(shown.contains(&format!("process {}, which is alive", driver.id().unwrap())), "{shown}");
    assert_eq!(world.relight(&format!("show {run} --json")).await.json()["driver_alive"], true);

    driver.kill().await.unwrap();
    let resume = format!("relight resume {run} --agent FILE");
    let shown = world.relight(&format!("show {run}")).await.ended(0).stdout;
    assert!(shown.contains("running") && shown.contains("is gone") && shown.contains(&resume), "{shown}");
    assert_eq!(world.relight(&format!("show {run} --json")).await.json()["driver_alive"], false);
    let mut tail = world.command(&format!("tail {run}")).spawn().unwrap();
    let mut notes = BufReader::new(tail.stderr.take().unwrap()).lines();
    let note = notes.next_line().await.unwrap().unwrap();
    assert!(note.contains("drives this run no more") && note.contains(&resume), "{note}");
    world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0);
    let tailed = wait(tail).await.ended(0).stdout;
    assert!(tailed.lines().last().unwrap().contains("run completed"), "{tailed}");
    assert_eq!(notes.next_line().await.unwrap(), None);
}
