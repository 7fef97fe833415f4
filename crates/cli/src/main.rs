//! The `relight` binary: runs agents, resumes their runs, looks at them and repairs them.

mod agent_file;
mod args;
mod commands;
mod demo;
mod exit;
mod failure;
mod output;
mod own_binary;
mod store;
mod tools;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    // Not for people, so not among the commands: the guard is this binary, too, and starts quickly.
    if std::env::args_os().nth(1).is_some_and(|command| command == tools::guard::COMMAND) {
        return ExitCode::from(tools::guard::serve().code());
    }
    let cli = Cli::parse();
    cli.color.write_global();
    let result = match cli.command {
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        command => asynchronously(command, &cli.store),
    };
    let exit = result.unwrap_or_else(|failure| {
        if failure.exit != Exit::Ok {
            let (style, word) = match failure.exit {
                Exit::RunWaits => (output::style::WAITS, "waiting"),
                _ => (output::style::BAD, "error"),
            };
            output::note(format_args!("{style}{word}:{style:#} {failure}"));
        }
        failure.exit
    });
    ExitCode::from(exit.code())
}

fn asynchronously(command: Command, store: &str) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Unexpected, format!("the async runtime cannot start: {error}"))
    })?;
    let result = runtime.block_on(async {
        ignore_file_size_signal();
        match command {
            Command::Run(args) => commands::run::run(args, store).await,
            Command::Resume(args) => commands::resume::run(args, store).await,
            Command::List(args) => commands::list::run(args, store).await,
            Command::Show(args) => commands::show::run(args, store).await,
            Command::Tail(args) => commands::tail::run(args, store).await,
            Command::Verify(args) => commands::verify::run(args, store).await,
            Command::Export(args) => commands::export::run(args, store).await,
            Command::Resolve(args) => commands::resolve::run(args, store).await,
            Command::Cancel(args) => commands::cancel::run(args, store).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Completions(_) => unreachable!("it needs no async runtime"),
        }
    });
    // A tool's last step on another thread may hang on a disk; what it did is found out by the next drive.
    runtime.shutdown_background();
    result
}

/// A file that may not grow shall be an error that says so, and not the end of the process.
fn ignore_file_size_signal() {
    const SIGXFSZ: i32 = 25;
    // With a handler in place the write fails instead. It stays in place when the stream is dropped.
    let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ));
}
