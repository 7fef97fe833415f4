//! `cargo xtask test`: every test of the workspace, and a list of the suites that ran.

use std::io::{BufRead as _, BufReader, PipeReader};
use std::process::{Child, Command};

use crate::cargo::{self, cargo};
use crate::metadata::Workspace;
use crate::needs::{self, Install};
use crate::steps::{Outcome, Steps};
use crate::suites::Suites;

/// Builds the binary that tests start, then runs all tests; `cargo_args` narrow what is run.
pub(crate) fn run(install: Install, cargo_args: &[String]) -> Result<(), String> {
    needs::provide(needs::FOR_TESTS, install)?;
    let workspace = Workspace::read()?;
    let profile: &[&str] = if cargo_args.iter().any(|arg| arg == "--release") { &["--release"] } else { &[] };

    let mut steps = Steps::start();
    steps.step("building the relight binary", || {
        let mut build =
            cargo(["build", "--quiet", "--locked", "--package", "relight-cli", "--bin", "relight"]);
        cargo::run(build.args(profile)).map(|_| Outcome::Passed)
    });
    steps.finish()?;

    let folder = if profile.is_empty() { "debug" } else { "release" };
    let binary = workspace.target_directory.join(folder).join("relight");
    let mut command = cargo(["test", "--locked", "--no-fail-fast"]);
    // With targets unnamed, cargo runs unit, integration and doc tests and builds the examples, but no benches.
    if !cargo_args.iter().any(|arg| arg == "-p" || arg.starts_with("--package")) {
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
    suites.verdict(status.success(), cargo_args.is_empty())
}

/// Starts the command with one pipe for both streams: cargo names the suite on one, the suite reports on the other.
fn start(mut command: Command) -> std::io::Result<(Child, PipeReader)> {
    let (reader, writer) = std::io::pipe()?;
    let child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing ends, and is dropped here: else reading would never end.
    Ok((child, reader))
}
