//! From any folder, and from a binary that was installed, replaced or deleted.

use std::{path::Path, process::Command};

use serde_json::json;

use crate::support::{RELIGHT, World, finish, wait};

const TOOLS: &str = r#"
system_file = "prompts/system.md"
[[tools]]
kind = "command"
name = "where"
description = "Tells where it runs."
effect = "write"
program = "./bin/where.sh"
[[tools]]
kind = "read_file"
root = "files"
[[tools]]
kind = "ledger"
path = "books/ledger.jsonl"
"#;

#[tokio::test]
async fn paths_in_an_agent_file_are_relative_to_it_from_any_folder() {
    let world = World::calling("where", json!({}), TOOLS).await;
    let there = world.path("agents");
    for folder in ["bin", "files", "prompts", "books"] {
        std::fs::create_dir_all(there.join(folder)).unwrap();
    }
    std::fs::write(there.join("prompts/system.md"), "Be brief.").unwrap();
    let program = world.path("where.sh");
    std::fs::write(&program, "#!/bin/sh\nprintf '\"%s\"' \"$(pwd -P)\"\n").unwrap();
    install(&program, &there.join("bin/where.sh"));
    std::fs::rename(world.path("agent.toml"), there.join("agent.toml")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();

    let store = world.path("relight.db");
    let agent = there.join("agent.toml");
    let mut command = world.command("run --text go");
    command.arg("--agent").arg(&agent).arg("--store").arg(&store).current_dir(elsewhere.path());
    finish(command).await.ended(0);
    let mut command = world.command("run --agent agents/agent.toml --text go");
    command.arg("--store").arg(&store);
    finish(command).await.ended(0);
    let hashes: Vec<_> = world
        .relight("list --json")
        .await
        .json_lines()
        .iter()
        .map(|line| line["agent_hash"].clone())
        .collect();
    assert_eq!(hashes[0], hashes[1], "the same agent is another from another folder");
    let results = world.server.requests().into_iter().flat_map(|request| {
        let body = request.body.unwrap();
        body.tool_results().into_iter().map(|result| result["content"].to_string()).collect::<Vec<_>>()
    });
    let there = there.canonicalize().unwrap();
    for result in results {
        assert!(result.contains(there.to_str().unwrap()), "{result}");
    }
    assert_eq!(world.server.requests()[0].body.as_ref().unwrap().json()["system"][0]["text"], "Be brief.");
}

#[tokio::test]
async fn an_installed_binary_needs_nothing_beside_it() {
    let world = World::saying("ok").await;
    std::fs::create_dir(world.path("bin")).unwrap();
    let installed = world.path("bin/relight");
    install(RELIGHT.as_ref(), &installed);
    let ran = finish(world.command_of(&installed, "demo --speed 0")).await.ended(0);
    assert!(ran.stdout.contains("nothing was lost"), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_binary_that_is_replaced_while_it_runs_goes_on_with_itself() {
    let world = World::saying("ok").await;
    let installed = world.path("relight-copy");
    install(RELIGHT.as_ref(), &installed);
    let child = world.command_of(&installed, "demo --speed 0").spawn().unwrap();
    // An upgrade does just this: the name is another file's from now on.
    std::fs::remove_file(&installed).unwrap();
    std::fs::write(&installed, "another program").unwrap();
    let ran = wait(child).await.ended(0);
    assert!(ran.stdout.contains("nothing was lost"), "{ran:?}");
}

/// Copies a program by another process: Linux runs no file that is open for writing, and a test beside this one may
/// fork just while it is open here, which keeps it open there.
#[track_caller]
fn install(program: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).arg(program).arg(to).status().unwrap();
    assert!(installed.success(), "{}", to.display());
}
