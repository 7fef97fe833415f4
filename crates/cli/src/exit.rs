//! The exit codes, in one place: what scripts may rely on.

use std::fmt::Write as _;

/// How the program ends. The numbers are a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Unexpected = 1,
    BadInput = 2,
    RunFailed = 3,
    RunWaits = 4,
    ModelFailed = 5,
    StoreFailed = 6,
    Damaged = 7,
    NoSuchRun = 8,
    Refused = 9,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    const ALL: [Self; 12] = [
        Self::Ok,
        Self::Unexpected,
        Self::BadInput,
        Self::RunFailed,
        Self::RunWaits,
        Self::ModelFailed,
        Self::StoreFailed,
        Self::Damaged,
        Self::NoSuchRun,
        Self::Refused,
        Self::Interrupted,
        Self::Terminated,
    ];

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done; of `run` and `resume`: the run completed",
            Self::Unexpected => {
                "something that should not happen; the demo found something lost or done twice"
            }
            Self::BadInput => "the arguments, the agent file, the input or the environment are at fault",
            Self::RunFailed => "the run is over and has no output: it failed, or was cancelled",
            Self::RunWaits => "the run waits for a person: `relight show RUN` says what for",
            Self::ModelFailed => "the model could not be reached or refused; resume the run",
            Self::StoreFailed => "the store cannot be used: missing, locked, full, read-only, or newer",
            Self::Damaged => "a log is damaged, or the agent asks for something else than its log records",
            Self::NoSuchRun => "there is no such run in the store",
            Self::Refused => "the run is not in a state for that: driven by another process, or over",
            Self::Interrupted => "interrupted by Ctrl-C (SIGINT); resume the run",
            Self::Terminated => "terminated (SIGTERM); resume the run",
        }
    }
}

/// The table for the help text.
pub(crate) fn table() -> String {
    Exit::ALL.into_iter().fold("Exit codes:\n".to_owned(), |mut table, exit| {
        writeln!(table, "  {:>3}  {}", exit.code(), exit.meaning()).expect("a string takes every write");
        table
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_another_and_stands_in_the_table() {
        let table = table();
        let mut codes: Vec<u8> = Exit::ALL.map(Exit::code).to_vec();
        for code in &codes {
            assert!(table.contains(&format!("\n  {code:>3}  ")), "{code}");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
