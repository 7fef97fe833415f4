//! No secret appears anywhere: not in output, not in the store, not in what a tool inherits.

use relight_testkit::{Answer, Script};
use serde_json::json;

use crate::support::{Ran, World, finish};

const SECRET: &str = "sk-ant-hunter2-and-more";

async fn relight(world: &World, args: &str) -> Ran {
    let mut command = world.command(args);
    command.env("MY_KEY", SECRET).env("ANTHROPIC_API_KEY", SECRET);
    let ran = finish(command).await;
    assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "{args} shows the key: {ran:?}");
    ran
}

#[tokio::test]
async fn a_key_is_sent_to_the_model_and_seen_nowhere_else() {
    let script = Script::new()
        .turn(Answer::tool_use("toolu_1", "environment", json!({})))
        .turn(Answer::text("Done."))
        .require_key(SECRET);
    let world = World::new(script).await;
    let base_url = world.server.base_url();
    let text = format!(
        "model = \"m\"\n[provider]\nbase_url = \"{base_url}\"\napi_key_env = \"MY_KEY\"\n[[tools]]\nkind = \"command\"\n\
         name = \"environment\"\ndescription = \"Tells.\"\neffect = \"read\"\nprogram = \"sh\"\n\
         args = [\"-c\", \"env | grep -c . >/dev/null; env > environment.txt; echo true\"]\n"
    );
    std::fs::write(world.path("agent.toml"), text).unwrap();
    relight(&world, "run --agent agent.toml --text go --progress json").await.ended(0);
    let run = world.only_run().await;
    for args in ["list", "list --json", "show {}", "show {} --json", "export {}", "verify", "tail {}"] {
        relight(&world, &args.replace("{}", &run.to_string())).await.ended(0);
    }
    // The command saw its environment, but neither the agent's key nor the usual one.
    let environment = world.read("environment.txt");
    assert!(environment.contains(&format!("RELIGHT_RUN={run}")), "{environment}");
    assert!(!environment.contains(SECRET), "{environment}");
    for entry in std::fs::read_dir(world.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
            assert!(!found, "{} holds the key", path.display());
        }
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_key_in_its_error_does_not_spread_it() {
    let answer = Answer::error(401, "authentication_error", format!("{SECRET} is not a valid key"));
    let world = World::new(Script::new().turn(answer)).await;
    let base_url = world.server.base_url();
    let text = format!("model = \"m\"\n[provider]\nbase_url = \"{base_url}\"\napi_key_env = \"MY_KEY\"\n");
    std::fs::write(world.path("agent.toml"), text).unwrap();
    relight(&world, "run --agent agent.toml --text go").await.failed(5, &["401"]);
}

#[tokio::test]
async fn a_key_in_the_wrong_place_is_not_shown() {
    let world = World::saying("ok").await;
    for line in [
        format!("api_key_env = \"{SECRET}\""),
        format!("api_key = \"{SECRET}\""),
        format!("base_url = \"https://me:{SECRET}@host\""),
        format!("base_url = \"https://host?key={SECRET}\""),
    ] {
        std::fs::write(world.path("agent.toml"), format!("model = \"m\"\n[provider]\n{line}\n")).unwrap();
        relight(&world, "run --agent agent.toml --text go").await.failed(2, &["agent.toml", "provider"]);
    }
    relight(&world, &format!("run --agent agent.toml --text go --base-url https://me:{SECRET}@host"))
        .await
        .ended(2);
    relight(&world, &format!("list --store postgres://me:{SECRET}@host/db")).await.ended(6);
}
