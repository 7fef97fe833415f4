//! `cargo xtask check`: everything that needs no test run.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::{self, cargo};
use crate::metadata::Workspace;
use crate::needs::{self, Install};
use crate::steps::{Outcome, Steps, seconds};
use crate::{features, tidy};

/// Runs all checks, and fails naming those that failed.
pub(crate) fn run(install: Install) -> Result<(), String> {
    needs::provide(needs::FOR_CHECKS, install)?;
    let workspace = Workspace::read()?;
    let mut steps = Steps::start();

    steps.step("house rules", || tidy::check().map(|_| Outcome::Passed));
    steps.step("formatting", || passes(&mut cargo(["fmt", "--all", "--", "--check"])));
    steps.step("dependencies: bans, licences, sources", || {
        passes(&mut cargo([
            "deny",
            "--all-features",
            "--log-level",
            "error",
            "check",
            "bans",
            "licenses",
            "sources",
        ]))
    });
    steps.step("dependencies: advisories", advisories);
    for package in &workspace.packages {
        for set in features::sets(&package.features) {
            let name = format!("{}, {}", package.name, set.label);
            // Without its tests first: development dependencies switch on features that the package may lack alone.
            steps.step(&format!("alone: {name}"), || passes(&mut clippy(&package.name, &[], &set.args)));
            steps.step(&format!("clippy: {name}"), || {
                passes(&mut clippy(&package.name, &["--all-targets"], &set.args))
            });
        }
    }
    steps.step("docs", || {
        passes(
            cargo(["doc", "--quiet", "--workspace", "--all-features", "--no-deps"])
                .env("RUSTDOCFLAGS", "--deny warnings"),
        )
    });
    steps.finish()
}

fn clippy(package: &str, targets: &[&str], features: &[String]) -> Command {
    let mut command = cargo(["clippy", "--quiet", "--locked", "--package", package]);
    command.args(targets).args(features).args(["--", "--deny", "warnings"]);
    command
}

fn passes(command: &mut Command) -> Result<Outcome, String> {
    cargo::run(command).map(|_| Outcome::Passed)
}

/// Known holes in dependencies, where their database can be reached; where it cannot, that is said.
fn advisories() -> Result<Outcome, String> {
    let mut fetch = cargo(["deny", "--all-features", "--log-level", "error", "fetch", "db"]);
    fetch.env("GIT_TERMINAL_PROMPT", "0").stdout(Stdio::null()).stderr(Stdio::piped());
    let child = fetch.spawn().map_err(|error| format!("cannot start {fetch:?}: {error}"))?;
    match ends_within(FETCH_LIMIT, child) {
        Ok(()) => passes(&mut cargo(["deny", "--all-features", "check", "--disable-fetch", "advisories"])),
        Err(reason) => Ok(Outcome::Announce(format!(
            "advisories were NOT checked, their database was not fetched: {reason}"
        ))),
    }
}

/// Waits for the command, but not for ever: a network that swallows packets must not hold up all checks.
///
/// # Errors
///
/// The last line that it wrote, or that it was ended for taking too long.
fn ends_within(limit: Duration, mut child: Child) -> Result<(), String> {
    let deadline = Instant::now() + limit;
    let unknown = |error: std::io::Error| error.to_string();
    while child.try_wait().map_err(unknown)?.is_none() {
        if Instant::now() > deadline {
            child.kill().map_err(unknown)?;
            child.wait().map_err(unknown)?;
            return Err(format!("no end after {}", seconds(limit)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().map_err(unknown)?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(printed
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it failed without a word")
        .to_owned())
}

const FETCH_LIMIT: Duration = Duration::from_secs(120);
