//! `relight completions`: a script for a shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{args::Cli, exit::Exit, failure::Failure, output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight completions bash > ~/.local/share/bash-completion/completions/relight
  relight completions zsh > ~/.zfunc/_relight
  relight completions fish > ~/.config/fish/completions/relight.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "relight", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end()).map(|()| Exit::Ok)
}
