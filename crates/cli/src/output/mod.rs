//! What the program prints: results on stdout, all else on stderr.

pub(crate) mod event;
pub(crate) mod live;
pub(crate) mod style;
pub(crate) mod text;
pub(crate) mod watch;

use std::{
    fmt::Display,
    io::{ErrorKind, Write},
    os::fd::AsFd,
};

use serde::Serialize;

use crate::{exit::Exit, failure::Failure};

/// Writes one line to stdout.
///
/// A reader that has gone away (`relight list | head`) has seen what it wanted, so the command ends quietly.
pub(crate) fn line(line: impl Display) -> Result<(), Failure> {
    write(format_args!("{line}\n"))
}

/// Writes one line to stdout as it is: what programs read, and what models said, is not looked through for styles.
pub(crate) fn exact_line(line: impl Display) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(cannot_write)
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value)
        .map_err(|error| Failure::new(Exit::Unexpected, format!("a value is not JSON: {error}")))?;
    exact_line(json)
}

/// Writes text to stdout, as [`line`] does.
pub(crate) fn write(text: impl Display) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    write!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(cannot_write)
}

fn cannot_write(error: std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Exit::Ok, ""),
        _ => Failure::new(Exit::Unexpected, format!("cannot write to stdout: {error}")),
    }
}

/// How many columns a terminal has; `otherwise` where the stream goes to none.
pub(crate) fn width(stream: impl AsFd, otherwise: usize) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => otherwise,
    }
}

/// Writes one line to stderr. Nobody is told if that fails: there is no other place to say so.
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}
