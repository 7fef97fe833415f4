//! `command`: a tool that is a program. Input as JSON on its stdin, the answer as JSON on its stdout.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use relight::{Reconciled, Tool, ToolCall, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::Value;

use super::guard::{self, GuardError, Job, KeyLock, Report};
use crate::output::text::shortened;

/// A tool that is a program.
///
/// The program finds `RELIGHT_IDEMPOTENCY_KEY`, `RELIGHT_RUN` and `RELIGHT_INTENT` in its environment, and the agent
/// file's folder as its working directory. It ends with exit code 0 and its answer on stdout. With any other code it
/// failed; a write that failed is reconciled, unless the code is 75, which says that surely nothing was done.
///
/// The `reconcile` program is given the same stdin and environment. It answers
/// `{"status": "done", "outcome": ..}`, `{"status": "not_done"}` or `{"status": "unknown", "why": ".."}`.
pub(crate) struct CommandTool {
    spec: ToolSpec,
    program: Program,
    reconcile: Option<Program>,
    folder: PathBuf,
    limits: Limits,
    without: Vec<OsString>,
    /// Keys of the attempts that this process has seen end, with all that they started.
    ended: Mutex<BTreeSet<String>>,
}

/// A program and its arguments.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<String>,
}

/// What a command may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) output_bytes: usize,
    /// How long to wait until the processes of an earlier attempt are gone; their guard kills them at once.
    pub(crate) earlier: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), output_bytes: 1 << 20, earlier: Duration::from_secs(10) }
    }
}

impl CommandTool {
    pub(crate) const fn new(
        spec: ToolSpec,
        program: Program,
        reconcile: Option<Program>,
        folder: PathBuf,
        limits: Limits,
    ) -> Self {
        Self {
            spec,
            program,
            reconcile,
            folder,
            limits,
            without: Vec::new(),
            ended: Mutex::new(BTreeSet::new()),
        }
    }

    /// The same, which does not hand these variables on: they hold keys that are none of the program's business.
    pub(crate) fn without_variables(mut self, names: &[String]) -> Self {
        self.without = names.iter().map(OsString::from).collect();
        self
    }

    async fn run(&self, program: &Program, call: ToolCall<'_>, lock: KeyLock) -> Result<Report, GuardError> {
        let job = Job {
            program: program.path.clone(),
            args: program.args.clone(),
            folder: self.folder.clone(),
            input: format!("{}\n", call.input),
            timeout_ms: self.limits.time.as_millis().try_into().unwrap_or(u64::MAX),
            max_output_bytes: self.limits.output_bytes,
            lock: lock.path().to_owned(),
        };
        let variables = [
            (guard::KEY_VARIABLE, call.idempotency_key.to_owned()),
            ("RELIGHT_RUN", call.run.to_string()),
            ("RELIGHT_INTENT", call.intent.to_string()),
        ];
        guard::run(&job, lock, &variables, &self.without).await
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        let lock = KeyLock::acquire(call.idempotency_key, self.limits.earlier)
            .await
            .map_err(|why| ToolError::not_done("still_running", why))?;
        match self.run(&self.program, call, lock).await {
            Ok(report) => {
                self.ended().insert(call.idempotency_key.to_owned());
                answer(report, self.limits)
            }
            Err(GuardError::NotStarted(why)) => Err(ToolError::not_done("not_started", why)),
            Err(GuardError::Lost(why)) => Err(ToolError::new("lost", why)),
        }
    }

    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        let lock = match KeyLock::acquire_after_others(call.idempotency_key, self.limits.earlier).await {
            Ok(lock) => lock,
            Err(why) => return Reconciled::Unknown(why),
        };
        let Some(program) = &self.reconcile else {
            return Reconciled::Unknown("it has no `reconcile` command that could look it up".to_owned());
        };
        let verdict = match self.run(program, call, lock).await {
            Ok(report) => verdict(report, self.limits),
            Err(GuardError::NotStarted(why) | GuardError::Lost(why)) => Reconciled::Unknown(why),
        };
        match verdict {
            // Here all processes of the attempt are gone. Whether that holds wherever it ran, the runtime knows.
            Reconciled::NotDone if !self.ended().contains(call.idempotency_key) => Reconciled::NotDoneYet,
            verdict => verdict,
        }
    }
}

/// What a call returns, from what its guard reports.
fn answer(report: Report, limits: Limits) -> Result<Value, ToolError> {
    match report {
        Report::Exited { code: Some(0), stdout, .. } => {
            let text =
                stdout.ok_or_else(|| ToolError::new("invalid_output", "its answer is not text in UTF-8"))?;
            serde_json::from_str(&text)
                .map_err(|error| ToolError::new("invalid_output", format!("its answer is not JSON: {error}")))
        }
        Report::Exited { code: Some(NOTHING_DONE), stderr, .. } => {
            Err(ToolError::not_done("not_done", said("it did nothing", &stderr)))
        }
        Report::NotStarted { why } => Err(ToolError::not_done("not_started", why)),
        report => {
            let (code, message) = failed(&report, limits);
            Err(ToolError::new(code, message))
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Answer {
    Done { outcome: Value },
    NotDone,
    Unknown { why: Option<String> },
}

/// What a `reconcile` program found out, from what its guard reports.
fn verdict(report: Report, limits: Limits) -> Reconciled {
    let unknown = |why: String| Reconciled::Unknown(format!("its `reconcile` command does not tell: {why}"));
    match report {
        Report::Exited { code: Some(0), stdout, .. } => {
            match serde_json::from_str(&stdout.unwrap_or_default()) {
                Ok(Answer::Done { outcome }) => Reconciled::Done(outcome),
                Ok(Answer::NotDone) => Reconciled::NotDone,
                Ok(Answer::Unknown { why }) => {
                    unknown(why.unwrap_or_else(|| "it gives no reason".to_owned()))
                }
                Err(error) => unknown(format!("its answer cannot be understood: {error}")),
            }
        }
        Report::NotStarted { why } => unknown(why),
        report => unknown(failed(&report, limits).1),
    }
}

/// A code and a line for a command that did not end well.
fn failed(report: &Report, limits: Limits) -> (&'static str, String) {
    match report {
        Report::Exited { code: Some(code), stderr, .. } => {
            ("failed", said(&format!("exit code {code}"), stderr))
        }
        Report::Exited { signal, stderr, .. } => {
            let signal = signal.map_or_else(|| "a signal".to_owned(), |signal| format!("signal {signal}"));
            ("killed", said(&format!("ended by {signal}"), stderr))
        }
        Report::TimedOut { stderr } => (
            "timed_out",
            said(&format!("ended at its time limit of {} s", limits.time.as_secs_f32()), stderr),
        ),
        Report::TooMuchOutput { stderr } => (
            "output_too_large",
            said(&format!("ended at its output limit of {} bytes", limits.output_bytes), stderr),
        ),
        Report::NotStarted { why } => ("not_started", why.clone()),
        Report::DriverGone => ("ended", "ended with its driver".to_owned()),
    }
}

/// What happened, with the last that the command said of it.
fn said(what: &str, stderr: &str) -> String {
    const WIDTH: usize = 400;
    let stderr = stderr.trim();
    let tail = stderr.char_indices().rev().nth(WIDTH - 1).map_or(0, |(at, _)| at);
    match shortened(&stderr[tail..], WIDTH).as_str() {
        "" => what.to_owned(),
        stderr => format!("{what}: {stderr}"),
    }
}

/// EX_TEMPFAIL of sysexits.h: with this exit code a program says that surely nothing was done.
const NOTHING_DONE: i32 = 75;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exited(code: i32, stdout: &str, stderr: &str) -> Report {
        Report::Exited {
            code: Some(code),
            signal: None,
            stdout: Some(stdout.to_owned()),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn an_answer_of_any_shape_is_what_the_command_wrote() {
        for value in [json!(null), json!("text"), json!([1.5]), json!({"error": "is just a field"})] {
            assert_eq!(answer(exited(0, &format!("\n{value}\n"), "noise"), Limits::default()), Ok(value));
        }
    }

    #[track_caller]
    fn check_error(report: Report, code: &str, is_not_done: bool, part: &str) {
        let error = answer(report, Limits::default()).unwrap_err();
        assert_eq!((error.failure().code.as_str(), error.is_not_done()), (code, is_not_done));
        assert!(error.failure().message.contains(part), "{error}");
    }

    #[test]
    fn only_code_75_and_a_program_that_never_ran_are_surely_not_done() {
        let limits = Limits::default();
        check_error(exited(75, "", "try later"), "not_done", true, "try later");
        check_error(
            Report::NotStarted { why: "no such file".to_owned() },
            "not_started",
            true,
            "no such file",
        );
        check_error(exited(1, "", "first\nlast"), "failed", false, "exit code 1: first last");
        check_error(exited(0, "", ""), "invalid_output", false, "not JSON");
        check_error(exited(0, "{} {}", ""), "invalid_output", false, "not JSON");
        check_error(Report::TimedOut { stderr: String::new() }, "timed_out", false, "60 s");
        check_error(Report::TooMuchOutput { stderr: String::new() }, "output_too_large", false, "bytes");
        let signal = Report::Exited { code: None, signal: Some(9), stdout: None, stderr: String::new() };
        assert_eq!(failed(&signal, limits), ("killed", "ended by signal 9".to_owned()));
    }

    #[test]
    fn of_a_long_complaint_the_end_is_kept() {
        let said = said("exit code 1", &format!("{}the reason", "é".repeat(1000)));
        assert!(said.ends_with("the reason") && said.len() < 1000, "{said}");
    }

    #[test]
    fn a_reconcile_command_has_three_answers_and_all_else_is_unknown() {
        let check = |report| verdict(report, Limits::default());
        let done = json!({"status": "done", "outcome": [1]}).to_string();
        assert_eq!(check(exited(0, &done, "")), Reconciled::Done(json!([1])));
        assert_eq!(check(exited(0, r#"{"status":"not_done"}"#, "")), Reconciled::NotDone);
        let others =
            [r#"{"status":"unknown","why":"bank is closed"}"#, r#"{"status":"done"}"#, "", "done", "{}"];
        for other in others {
            assert!(matches!(check(exited(0, other, "")), Reconciled::Unknown(_)), "{other}");
        }
        let failed = check(exited(1, r#"{"status":"not_done"}"#, "no network"));
        assert!(matches!(&failed, Reconciled::Unknown(why) if why.contains("no network")), "{failed:?}");
    }
}
