//! What the command line may say.

use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{commands, demo, exit, store};

/// Runs LLM agents so that they survive any crash.
///
/// A run is an event log. Kill the process at any instant and resume the run: finished model calls are not paid
/// twice, finished tools do not run twice, and a write whose outcome is unknown is never repeated blindly.
#[derive(Debug, Parser)]
#[command(name = "relight", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::table()))]
#[command(disable_help_subcommand = true, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Where runs are kept: a file, or `sqlite:FILE`
    #[arg(long, global = true, env = "RELIGHT_STORE", hide_env_values = true, value_name = "STORE")]
    #[arg(default_value = store::DEFAULT, help_heading = EVERYWHERE)]
    pub(crate) store: String,

    /// Whether to use colours (NO_COLOR is obeyed, too)
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = EVERYWHERE)]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(commands::run::Args),
    Resume(commands::resume::Args),
    List(commands::list::Args),
    Show(commands::show::Args),
    Tail(commands::tail::Args),
    Verify(commands::verify::Args),
    Export(commands::export::Args),
    Resolve(commands::resolve::Args),
    Cancel(commands::cancel::Args),
    Demo(demo::Args),
    Completions(commands::completions::Args),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// What every command takes stands below what only it takes.
const EVERYWHERE: &str = "Options of every command";

const EXAMPLES: &str = "\
Examples:
  relight demo                                     see a run killed twice and relit
  relight run --agent clerk.toml --text 'Hello'    start a run
  relight list                                     what runs there are
  relight resume RUN --agent clerk.toml            go on after a crash, Ctrl-C or an outage";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_examples_and_a_line_about_itself() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("relight {name}")), "{name} has no example");
            assert!(command.get_about().is_some(), "{name} does not say what it does");
        }
    }
}
