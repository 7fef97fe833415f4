//! `cargo xtask test`: every test of the workspace, and a list of the suites that ran.

use std::io::{BufRead as _, BufReader, PipeReader};
use std::process::{Child, Command};
use std::time::Instant;

use crate::cargo::cargo;
use crate::metadata::Workspace;
use crate::needs::{self, Install};
use crate::steps::seconds;
use crate::suites::{Asked, Suites};

/// Builds everything, with the binary that tests start, then runs all tests; `cargo_args` narrow what is run.
pub(crate) fn run(install: Install, cargo_args: &[String]) -> Result<(), String> {
    needs::provide(needs::FOR_TESTS, install)?;
    let workspace = Workspace::read()?;
    let narrowed = cargo_args.iter().any(|arg| arg == "-p" || arg.starts_with("--package"));
    let release = cargo_args.iter().any(|arg| arg == "--release");

    println!("building the tests and the relight binary");
    let started = Instant::now();
    let mut build = cargo(["build"]);
    if narrowed {
        build.args(["--package", "relight-cli", "--bin", "relight"]);
    } else {
        // All in one, with the tests: development dependencies switch on features, and what was built without them
        // would be built once more.
        build.args(["--workspace", "--bins", "--tests", "--examples"]);
    }
    if release {
        build.arg("--release");
    }
    let status = build.status().map_err(|error| format!("cannot start {build:?}: {error}"))?;
    if !status.success() {
        return Err("the build failed; see above".to_owned());
    }
    println!("built ({})", seconds(started.elapsed()));

    let folder = if release { "release" } else { "debug" };
    let binary = workspace.target_directory.join(folder).join("relight");
    let mut command = cargo(["test", "--no-fail-fast"]);
    // With targets unnamed, cargo runs unit, integration and doc tests and builds the examples, but no benches.
    if !narrowed {
        command.arg("--workspace");
    }
    command.args(cargo_args).env("RELIGHT_BIN", binary);

    let (mut tests, output) = start(command).map_err(|error| format!("cannot run the tests: {error}"))?;
    let mut suites = Suites::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read what the tests print: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        suites.read(&line);
    }
    let status = tests.wait().map_err(|error| format!("cannot wait for the tests: {error}"))?;

    print!("\n{suites}");
    if !status.success() {
        return Err(suites.failure());
    }
    suites.verdict(if cargo_args.is_empty() { Asked::Everything } else { Asked::Some })
}

/// Starts the command with one pipe for both streams: cargo names the suite on one, the suite reports on the other.
fn start(mut command: Command) -> std::io::Result<(Child, PipeReader)> {
    let (reader, writer) = std::io::pipe()?;
    let child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing ends, and is dropped here: else reading would never end.
    Ok((child, reader))
}
