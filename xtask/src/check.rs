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
    steps.step("dependencies: bans, licences, sources", dependencies);
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
    let mut command = cargo(["clippy", "--quiet", "--locked", "--no-deps", "--package", package]);
    command.args(targets).args(features).args(["--", "--deny", "warnings"]);
    command
}

fn passes(command: &mut Command) -> Result<Outcome, String> {
    cargo::run(command).map(|_| Outcome::Passed)
}

/// What `deny.toml` allows; packages that come in several versions are named, as they cost time and space.
fn dependencies() -> Result<Outcome, String> {
    let printed = cargo::run(&mut cargo([
        "deny",
        "--all-features",
        "--log-level",
        "warn",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))?;
    let several = several_versions(&printed);
    if several.is_empty() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Announce(format!("in more than one version: {}", several.join(", "))))
}

/// Reads `warning[duplicate]: found 2 duplicate entries for crate 'digest'`.
fn several_versions(printed: &str) -> Vec<&str> {
    printed
        .lines()
        .filter_map(|line| line.split_once("duplicate entries for crate '")?.1.strip_suffix('\''))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_in_several_versions_are_named() {
        let printed = "warning[duplicate]: found 2 duplicate entries for crate 'digest'\n  digest 0.10.7\n\
                       warning[duplicate]: found 3 duplicate entries for crate 'getrandom'\nbans ok";
        assert_eq!(several_versions(printed), ["digest", "getrandom"]);
    }

    #[test]
    fn a_command_that_fails_gives_its_last_line() {
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo first >&2; echo last >&2; exit 1"]).stderr(Stdio::piped());
        assert_eq!(ends_within(FETCH_LIMIT, failing.spawn().unwrap()), Err("last".to_owned()));
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let mut endless = Command::new("sh");
        let child = endless.args(["-c", "exec sleep 1000"]).spawn().unwrap();
        let error = ends_within(Duration::from_millis(5), child).unwrap_err();
        assert!(error.starts_with("no end after"), "{error}");
    }
}
