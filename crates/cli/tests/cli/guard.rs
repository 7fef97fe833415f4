//! The limits of a command tool, kept by its guard.

use serde_json::{Value, json};

use crate::support::{World, is_alive, until};

fn tool(program: &str, more: &str) -> String {
    format!(
        "[[tools]]\nkind = \"command\"\nname = \"work\"\ndescription = \"Works.\"\neffect = \"read\"\nprogram = \"sh\"\n\
         args = [\"-c\", '''{program}''']\n{more}"
    )
}

/// What the model was told of a call.
async fn told(program: &str, more: &str) -> (World, Value) {
    let world = World::calling("work", json!({"text": "ä \"quoted\"\n", "n": 1}), &tool(program, more)).await;
    world.run().await.ended(0);
    let body = world.server.requests()[1].body.clone().unwrap();
    let result = body.tool_results()[0].clone();
    (world, result)
}

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[tokio::test]
async fn a_command_reads_its_input_and_answers_in_json() {
    let (_, result) = told("cat", "").await;
    assert_eq!(
        serde_json::from_str::<Value>(&text(&result)).unwrap(),
        json!({"text": "ä \"quoted\"\n", "n": 1})
    );
}

#[tokio::test]
async fn a_command_finds_its_call_in_the_environment() {
    let (world, result) = told(r#"echo "[\"$RELIGHT_RUN\", $RELIGHT_INTENT]""#, "").await;
    assert_eq!(text(&result), json!([world.only_run().await, 5]).to_string());
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_its_children() {
    let (world, result) = told("sleep 300 & echo $! > child; sleep 300", "timeout_ms = 300").await;
    assert!(text(&result).contains("time limit of 0.3 s"), "{result}");
    until("the end of the child", || !is_alive(&world.read("child"))).await;
}

#[tokio::test]
async fn a_command_that_says_too_much_is_ended() {
    let (_, result) = told("while true; do echo yes yes yes; done", "max_output_bytes = 10000").await;
    assert!(text(&result).contains("output limit of 10000 bytes"), "{result}");
    let (_, result) = told("printf '\"12345678\"'", "max_output_bytes = 9").await;
    assert!(text(&result).contains("output limit of 9 bytes"), "{result}");
    let (_, result) = told("printf '\"12345678\"'", "max_output_bytes = 10").await;
    assert_eq!(text(&result), "12345678");
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let (world, result) = told("sleep 300 & echo $! > child; echo true", "").await;
    assert_eq!(text(&result), "true");
    assert!(!is_alive(&world.read("child")));
}

#[tokio::test]
async fn a_command_that_fails_is_quoted() {
    let (_, result) = told("echo first >&2; echo the reason >&2; exit 3", "").await;
    assert!(text(&result).contains("exit code 3: first the reason"), "{result}");
    let (_, result) = told("kill -9 $$", "").await;
    assert!(text(&result).contains("ended by signal 9"), "{result}");
    let (_, result) = told("echo nonsense", "").await;
    assert!(text(&result).contains("not JSON"), "{result}");
}

#[tokio::test]
async fn a_guard_leaves_no_file_behind() {
    let (world, _) = told("echo true", "").await;
    let locks = std::fs::read_dir(world.folder.path()).unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        entry.file_name().to_str().unwrap().starts_with("relight-").then(|| entry.path())
    });
    let left: Vec<_> = std::fs::read_dir(locks.unwrap()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
