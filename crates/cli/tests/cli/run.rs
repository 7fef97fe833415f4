//! `run` and `resume` when all goes well, and what each way of ending looks like.

use relight_testkit::{Answer, At, Script};
use serde_json::json;

use crate::support::{World, finish, wait};

#[tokio::test]
async fn the_answer_alone_goes_to_stdout() {
    let world = World::saying("Hello there.").await;
    let ran = world.relight("run --agent agent.toml --text hi").await.ended(0);
    assert_eq!(ran.stdout, "Hello there.\n");
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn a_program_reads_the_result_as_json() {
    let world = World::saying("Hello.").await;
    let ran = world.run().await.ended(0);
    let run = world.only_run().await;
    assert_eq!(ran.json(), json!({"run": run, "status": "completed", "output": "Hello."}));
}

#[tokio::test]
async fn the_input_is_json_from_the_command_line_a_file_or_stdin() {
    let input = json!({"order": 7, "large": u64::MAX});
    for source in ["--input", "@file", "-"] {
        let world = World::saying("ok").await;
        let mut command = world.command("run --agent agent.toml --input");
        std::fs::write(world.path("input.json"), input.to_string()).unwrap();
        match source {
            "@file" => command.arg("@input.json"),
            "-" => {
                command.stdin(std::fs::File::open(world.path("input.json")).unwrap());
                command.arg("-")
            }
            _ => command.arg(input.to_string()),
        };
        finish(command).await.ended(0);
        let run = world.only_run().await;
        let started = serde_json::to_value(&world.log(run).await[0].event).unwrap();
        assert_eq!(started["payload"]["input"], input, "{source}");
    }
}

#[tokio::test]
async fn a_run_has_the_id_and_the_labels_it_was_given() {
    let world = World::saying("ok").await;
    let id = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b";
    let args = "run --agent agent.toml --text hi --label customer=acme --label tier=a=b --run-id";
    world.relight(&format!("{args} {id}")).await.ended(0);
    let listed = world.relight("list --json --label customer=acme").await.ended(0).json();
    assert_eq!(listed["run_id"], id);
    assert_eq!(listed["labels"], json!({"customer": "acme", "tier": "a=b"}));
    assert_eq!(world.relight("list --json --label customer=other").await.ended(0).stdout, "");
    world.relight(&format!("{args} {id}")).await.failed(9, &[id]);
}

#[tokio::test]
async fn text_arrives_on_stderr_while_the_model_speaks() {
    let script = Script::new().turn(Answer::text("one two three four").stall(At::Events(5)));
    let world = World::new(script).await;
    let mut child = world.command("run --agent agent.toml --text hi --progress live").spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut seen = String::new();
    // The model has said two words and waits, and they are there.
    while !seen.contains("one two") {
        use tokio::io::AsyncReadExt as _;
        let mut part = [0; 64];
        let read = stderr.read(&mut part).await.unwrap();
        assert!(read > 0, "it ended with {seen:?}");
        seen.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
    assert!(!seen.contains("three"), "{seen}");
    world.server.release();
    assert_eq!(wait(child).await.ended(0).stdout, "one two three four\n");
}

#[tokio::test]
async fn an_answer_with_a_schema_is_an_object() {
    let world = World::saying(r#"{"sum": 7}"#).await;
    world.agent("[output_schema]\ntype = \"object\"\nrequired = [\"sum\"]");
    let ran = world.run().await.ended(0);
    assert_eq!(ran.json()["output"], json!({"sum": 7}));
}

#[tokio::test]
async fn a_run_that_fails_says_why_and_is_over() {
    let world = World::new(Script::new().turn(Answer::text("No.").stop_reason("refusal"))).await;
    let ran = world.run().await.failed(3, &["the model refused to answer", "refusal"]);
    assert_eq!(ran.json()["status"], "failed");
    assert_eq!(world.kinds().await.last(), Some(&"run_failed"));
}

#[tokio::test]
async fn a_run_over_its_budget_waits_until_the_limit_is_raised() {
    let script = Script::new()
        .turn(Answer::tool_use("toolu_1", "note", json!({"text": "x"})))
        .turn(Answer::text("All done."));
    let world = World::new(script).await;
    let ledger =
        "[budgets]\nsteps = 1\n[[tools]]\nkind = \"ledger\"\nname = \"note\"\npath = \"ledger.jsonl\"";
    world.agent(ledger);
    let ran = world.run().await.failed(4, &["used up its limit on steps", "--raise steps=N"]);
    assert_eq!(ran.json()["status"], "waiting");
    let run = world.only_run().await;

    world.relight(&format!("resume {run} --agent agent.toml")).await.failed(4, &["steps"]);
    world.relight(&format!("resume {run} --agent agent.toml --raise tokens=5")).await.failed(4, &["steps"]);
    let ran = world.relight(&format!("resume {run} --agent agent.toml --raise steps=2")).await.ended(0);
    assert_eq!(ran.stdout, "All done.\n");
    assert_eq!(world.server.requests().len(), 2);
    assert_eq!(world.read("ledger.jsonl").lines().count(), 1);
}

#[tokio::test]
async fn a_run_that_is_over_answers_with_how_it_ended_and_asks_nobody() {
    let world = World::saying("Hello.").await;
    world.run().await.ended(0);
    let run = world.only_run().await;
    let before = world.log(run).await;
    assert_eq!(world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0).stdout, "Hello.\n");
    assert_eq!(world.server.requests().len(), 1);
    assert_eq!(world.log(run).await, before);
}

#[tokio::test]
async fn a_run_is_named_by_enough_of_its_id() {
    let world = World::saying("Hello.").await;
    let first = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b";
    let second = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6c";
    for run in [first, second] {
        world.relight(&format!("run --agent agent.toml --text hi --run-id {run}")).await.ended(0);
    }
    let shown = world.relight(&format!("show --json {}", &second[..36])).await.ended(0).json();
    assert_eq!(shown["run_id"], second);
    world.relight(&format!("show {}", &first[..35])).await.failed(2, &[first, second, "more of its id"]);
    world.relight("show 0191").await.failed(8, &["no run 0191", "relight list"]);
    world.relight("show nonsense").await.failed(2, &["nonsense", "relight list"]);
    world.relight("show 0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6d").await.failed(8, &["no run 0190f5d2"]);
}

#[tokio::test]
async fn another_agent_cannot_go_on_with_a_run() {
    let world = World::new(Script::new().turn(Answer::error(529, "overloaded_error", "Overloaded"))).await;
    world.run().await.ended(5);
    let run = world.only_run().await;
    let before = world.log(run).await;
    world.agent("system = \"You are somebody else.\"");
    let ran = world.relight(&format!("resume {run} --agent agent.toml")).await;
    ran.failed(7, &["diverged at event 1", "nothing was changed", "the agent file"]);
    assert_eq!(world.log(run).await, before);
}

#[tokio::test]
async fn progress_as_json_tells_what_was_replayed_recorded_and_said() {
    let script = Script::new().attempts([
        Answer::text("one two").fail(At::Events(5), "overloaded_error", "Overloaded"),
        Answer::text("one two"),
    ]);
    let world = World::new(script).await;
    let first = world.relight("run --agent agent.toml --text hi --progress json").await.ended(5);
    let lines: Vec<serde_json::Value> =
        first.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["is"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["recorded", "recorded", "recorded", "text", "text"]);
    assert_eq!(lines[2]["event"]["event"]["kind"], "model_call_requested");
    let error = first.stderr.lines().last().unwrap();
    assert!(error.starts_with("error: Stream error"), "{error}");
}
