//! What the chores need beside the Rust toolchain: found, or announced and installed.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo;
use crate::steps::seconds;

/// Who may install what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Install {
    /// Root (containers) and CI; anybody else is told the command.
    AsRoot,
    /// Whoever called, since they said so.
    Always,
}

/// A program that a chore calls.
#[derive(Debug)]
pub(crate) struct Need {
    name: &'static str,
    why: &'static str,
    /// A command that succeeds where the program is there.
    probe: &'static [&'static str],
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A package of Debian and its relatives.
    Debian(&'static str),
    /// A component of the Rust toolchain.
    Component(&'static str),
    /// A program on the crates registry, with its version.
    Crate(&'static str),
}

/// What `cargo xtask test` needs.
pub(crate) const FOR_TESTS: &[Need] = &[C_COMPILER];

/// What `cargo xtask check` needs.
pub(crate) const FOR_CHECKS: &[Need] = &[
    C_COMPILER,
    Need {
        name: "rustfmt",
        why: "formatting",
        probe: &["cargo", "fmt", "--version"],
        source: Source::Component("rustfmt"),
    },
    Need {
        name: "clippy",
        why: "lints",
        probe: &["cargo", "clippy", "--version"],
        source: Source::Component("clippy"),
    },
    Need {
        name: "cargo-deny",
        why: "licences, bans and sources of dependencies",
        probe: &["cargo", "deny", "--version"],
        source: Source::Crate("cargo-deny@0.20.2"),
    },
];

const C_COMPILER: Need = Need {
    name: "cc",
    why: "SQLite is compiled in",
    probe: &["cc", "--version"],
    source: Source::Debian("gcc"),
};

/// Sees to it that everything in `needs` is there.
///
/// # Errors
///
/// Names what is missing and the command that installs it, where it may not or cannot be installed.
pub(crate) fn provide(needs: &[Need], install: Install) -> Result<(), String> {
    for need in needs {
        if found(need.probe) {
            continue;
        }
        let commands = need.source.commands();
        let shown = commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" && ");
        if !allowed(install) {
            return Err(format!(
                "{} is missing ({}); run `{shown}`, or this chore again with --install",
                need.name, need.why
            ));
        }
        println!("{} is missing ({}); installing it: {shown}", need.name, need.why);
        let started = Instant::now();
        for words in &commands {
            cargo::run(&mut installer(words)).map_err(|output| {
                format!("{} could not be installed by `{}`:\n{output}", need.name, words.join(" "))
            })?;
        }
        if !found(need.probe) {
            return Err(format!("{} is still missing after `{shown}`", need.name));
        }
        println!("{} is installed ({})", need.name, seconds(started.elapsed()));
    }
    Ok(())
}

impl Source {
    fn commands(&self) -> Vec<Vec<&'static str>> {
        match self {
            Source::Debian(package) => vec![
                vec!["apt-get", "update"],
                vec!["apt-get", "install", "--yes", "--no-install-recommends", package],
            ],
            Source::Component(component) => vec![vec!["rustup", "component", "add", component]],
            Source::Crate(krate) => vec![vec!["cargo", "install", "--locked", krate]],
        }
    }
}

fn installer(words: &[&str]) -> Command {
    let (program, args) = words.split_first().expect("a command has a program");
    let mut command = if *program == "cargo" { cargo::cargo(args) } else { Command::new(program) };
    if *program != "cargo" {
        command.args(args).stdin(Stdio::null());
    }
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        // A tool that runs for a second need not be compiled for minutes.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command
}

fn found(probe: &[&str]) -> bool {
    cargo::run(&mut installer(probe)).is_ok()
}

fn allowed(install: Install) -> bool {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    install == Install::Always || in_ci || is_root()
}

/// Asks `id`, which every Unix has, rather than linking a library for one number.
fn is_root() -> bool {
    cargo::run(Command::new("id").arg("-u")).is_ok_and(|printed| printed.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need {
        name: "frobnicate",
        why: "frobnication",
        probe: &["frobnicate-that-nobody-has", "--version"],
        source: Source::Debian("frobnicate"),
    };

    #[test]
    fn what_is_there_is_not_installed() {
        let there = Need { probe: &["cargo", "--version"], ..ABSENT };
        assert_eq!(provide(&[there], Install::AsRoot), Ok(()));
    }

    #[test]
    fn a_missing_program_is_not_found() {
        assert!(!found(ABSENT.probe));
    }

    #[test]
    fn packages_are_installed_without_questions() {
        let commands = Source::Debian("gcc").commands();
        assert_eq!(commands[1].join(" "), "apt-get install --yes --no-install-recommends gcc");
    }
}
