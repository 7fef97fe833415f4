//! `relight completions`: a script for a shell.

use clap_complete::Shell;

use crate::{exit::Exit, failure::Failure, output};

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

pub(crate) fn run(args: &Args, mut cli: clap::Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "relight", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end()).map(|()| Exit::Ok)
}
