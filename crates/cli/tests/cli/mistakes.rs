//! What goes wrong by mistake: one line that names the thing at fault and the way out, a code, and nothing lost.

use relight_testkit::{Answer, Script};

use crate::support::World;

#[tokio::test]
async fn a_bad_agent_file_is_named_with_line_and_field() {
    let world = World::saying("ok").await;
    world.agent("temprature = 1");
    world.run().await.failed(2, &["agent.toml:3: temprature: unknown field", "max_tokens"]);
    world.agent("[[tools]]\nkind = \"command\"\nname = \"a\"\ndescription = \"\"\neffect = \"writes\"\nprogram = \"sh\"");
    world.run().await.failed(2, &["agent.toml:7: tools.0.effect: unknown variant `writes`", "`write`"]);
    world.agent("[[tools]]\nkind = \"read_file\"\nroot = \"nowhere\"");
    world.run().await.failed(2, &["agent.toml:5: tools.0.root: nowhere is not a folder"]);
    world.relight("run --agent missing.toml --text hi").await.failed(2, &["missing.toml", "No such file"]);
    assert!(!world.path("relight.db").exists(), "a run that cannot be leaves a store behind");
}

#[tokio::test]
async fn an_input_that_is_not_json_is_refused_before_anything_is_recorded() {
    let world = World::saying("ok").await;
    world.relight("run --agent agent.toml --input {").await.failed(2, &["--input is not JSON", "--text"]);
    world.relight("run --agent agent.toml --input @none.json").await.failed(2, &["none.json"]);
    std::fs::write(world.path("bad.json"), "[1,").unwrap();
    world.relight("run --agent agent.toml --input @bad.json").await.failed(2, &["bad.json is not JSON"]);
    // Only an input has another option for texts.
    let ran = world.relight("resolve 0190 3 --outcome {").await.failed(2, &["--outcome is not JSON"]);
    assert!(!ran.stderr.contains("--text"), "{ran:?}");
    assert!(!world.path("relight.db").exists());
    assert!(world.server.requests().is_empty());
}

#[tokio::test]
async fn a_wrong_command_line_is_a_mistake_of_its_own() {
    let world = World::saying("ok").await;
    for args in ["", "fly", "run --agent agent.toml", "resume", "resolve 0190 3", "list --status odd"] {
        let ran = world.relight(args).await.ended(2);
        assert!(ran.stderr.contains("Usage") || ran.stderr.contains("--help"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_run_that_is_not_there_is_named() {
    let world = World::saying("ok").await;
    world.run().await.ended(0);
    let unknown = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b";
    let commands = ["show {}", "tail {}", "verify {}", "export {}", "cancel {}", "resolve {} 3 --not-done"];
    for command in commands.into_iter().chain(["resume {} --agent agent.toml"]) {
        let ran = world.relight(&command.replace("{}", unknown)).await;
        ran.failed(8, &[unknown, "relight list"]);
    }
}

#[tokio::test]
async fn an_unset_key_is_named_by_its_variable() {
    let world = World::saying("ok").await;
    std::fs::write(world.path("agent.toml"), "model = \"m\"").unwrap();
    world.run().await.failed(2, &["ANTHROPIC_API_KEY is not set"]);
    std::fs::write(world.path("agent.toml"), "model = \"m\"\n\n[provider]\napi_key_env = \"MY_KEY\"")
        .unwrap();
    world.run().await.failed(2, &["agent.toml:4: provider.api_key_env", "MY_KEY is not set"]);
}

#[tokio::test]
async fn a_refused_connection_leaves_a_run_that_goes_on_later() {
    let world = World::saying("Hello.").await;
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let args = format!("run --agent agent.toml --text hi --base-url http://127.0.0.1:{port}");
    let address = format!("127.0.0.1:{port}");
    world
        .relight(&args)
        .await
        .failed(5, &["connection", &address, "nothing recorded is lost", "relight resume"]);
    let run = world.only_run().await;
    assert_eq!(world.relight(&format!("resume {run} --agent agent.toml")).await.ended(0).stdout, "Hello.\n");
    let stopped = world.relight(&format!("{args} --json")).await.ended(5).json();
    assert_eq!(stopped["status"], "stopped");
    world.relight(&format!("resume {} --agent agent.toml", stopped["run"].as_str().unwrap())).await.ended(0);
}

#[tokio::test]
async fn a_refused_key_leaves_a_run_that_goes_on_with_the_right_one() {
    let world = World::new(Script::new().turn(Answer::text("Hello.")).require_key("the-right-one")).await;
    let base_url = world.server.base_url();
    let text = format!("model = \"m\"\n[provider]\nbase_url = \"{base_url}\"\napi_key_env = \"MY_KEY\"");
    std::fs::write(world.path("agent.toml"), text).unwrap();
    let mut command = world.command("run --agent agent.toml --text hi");
    command.env("MY_KEY", "the-wrong-one");
    let ran = crate::support::finish(command).await;
    let ran = ran.failed(5, &["refuses the key", "401", "provider.api_key_env", "relight resume"]);
    assert!(!ran.stderr.contains("the-wrong-one"));
    let run = world.only_run().await;
    let mut command = world.command(&format!("resume {run} --agent agent.toml"));
    command.env("MY_KEY", "the-right-one");
    assert_eq!(crate::support::finish(command).await.ended(0).stdout, "Hello.\n");
}
