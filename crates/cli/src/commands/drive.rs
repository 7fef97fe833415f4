//! What `run` and `resume` have in common: an agent, a watched drive that signals may end, and how it is reported.

use std::{path::PathBuf, sync::Arc};

use relight::{
    Agent, EventStore, RunId, RunOutcome, RunState, Runtime, RuntimeError, StoreError, core::WaitReason,
    llm::ErrorKind,
};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    agent_file,
    exit::Exit,
    failure::Failure,
    output::{
        self,
        text::{harmless, shell_word},
        watch::{Progress, Watch},
    },
    store,
};

/// Options of every command that drives.
#[derive(Debug, clap::Args)]
pub(crate) struct DriveArgs {
    /// The agent file
    #[arg(long, value_name = "FILE")]
    agent: PathBuf,

    /// Ask the model at this address instead of the agent file's; a key is sent there only where the file's
    /// `provider.api_key_env` names one
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,

    /// What stderr shows while the run is driven
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: Progress,
}

impl DriveArgs {
    /// The agent, ready to be driven.
    pub(crate) fn agent(&self) -> Result<Agent, Failure> {
        agent_file::load(&self.agent, self.base_url.as_deref())
    }
}

/// One drive, from its first look at the store to its report.
pub(crate) struct Session {
    args: DriveArgs,
    runtime: Runtime,
    store: Arc<dyn EventStore>,
    address: String,
    watch: Arc<Watch>,
    signals: Signals,
}

impl Session {
    pub(crate) fn begin(args: DriveArgs, store: Arc<dyn EventStore>, address: &str) -> Result<Self, Failure> {
        let signals = Signals::listen()?;
        let watch = Arc::new(Watch::new(args.progress));
        let runtime = Runtime::new(store.clone()).with_observer(watch.clone());
        Ok(Self { args, runtime, store, address: address.to_owned(), watch, signals })
    }

    pub(crate) fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Drives until the run ends or waits, or a signal comes; then says how it went.
    pub(crate) async fn finish(
        mut self,
        run: RunId,
        drive: impl Future<Output = Result<RunOutcome, RuntimeError>>,
    ) -> Result<Exit, Failure> {
        // A signal drops the drive, which ends the tool or stream that is in flight.
        let driven = tokio::select! {
            biased;
            outcome = drive => Ok(outcome),
            exit = self.signals.next() => Err(exit),
        };
        let shown = self.watch.finish();
        let is_recorded = self.watch.has_recorded() || self.is_known(run).await;
        let end = match driven {
            Ok(Ok(outcome)) => self.end(run, outcome).await,
            Ok(Err(error)) => End::stopped("stopped", self.explain(run, error, is_recorded)),
            Err(exit) => End::stopped("interrupted", self.interrupted(run, exit, is_recorded)),
        };
        // The run ended as it did, whether or not somebody still reads.
        let printed = if self.args.json {
            output::json_line(&end.as_json(is_recorded.then_some(run)))
        } else {
            end.output
                .as_ref()
                .filter(|output| !is_on_this_terminal(output, shown.as_deref()))
                .map_or(Ok(()), print)
        };
        printed.or_else(|failure| if failure.exit == Exit::Ok { Ok(()) } else { Err(failure) })?;
        end.result
    }

    async fn end(&self, run: RunId, outcome: RunOutcome) -> End {
        let (status, output, result) = match outcome {
            RunOutcome::Completed { output } => ("completed", Some(output), Ok(Exit::Ok)),
            RunOutcome::Failed { code, message } => (
                "failed",
                None,
                Err(Failure::new(Exit::RunFailed, format!("run {run} failed: {message} ({code})"))),
            ),
            RunOutcome::Cancelled => {
                ("cancelled", None, Err(Failure::new(Exit::RunFailed, format!("run {run} was cancelled"))))
            }
            RunOutcome::Waiting { reason } => (
                "waiting",
                None,
                Err(Failure::new(Exit::RunWaits, self.what_it_waits_for(run, &reason).await)),
            ),
            other => {
                let message = format!("run {run} ended in an unknown way: {other:?}");
                ("unknown", None, Err(Failure::new(Exit::Unexpected, message)))
            }
        };
        End { status, output, result }
    }

    async fn what_it_waits_for(&self, run: RunId, reason: &WaitReason) -> String {
        let (store, resume) = (store::flag(&self.address), self.resume_command(run));
        match reason {
            WaitReason::Reconciliation { intent, why } => {
                let tool = self.tool_of(run, *intent).await.unwrap_or_else(|| "a tool".to_owned());
                format!(
                    "nobody knows whether {tool} (event {intent} of run {run}) was done: {why}; find out \
                     (`relight show {run}{store}` has its input and key), say so with \
                     `relight resolve {run} {intent} --outcome JSON{store}` or `--not-done`, then `{resume}`"
                )
            }
            WaitReason::Budget { limit } => {
                format!("run {run} has used up its limit on {limit}; go on with `{resume} --raise {limit}=N`")
            }
            other => format!("run {run} waits for {other:?}; then `{resume}`"),
        }
    }

    async fn tool_of(&self, run: RunId, intent: relight::Seq) -> Option<String> {
        let log = self.store.read_log(run).await.ok()?;
        let state = RunState::fold(&log).ok()?;
        match state.progress()?.open.get(&intent)? {
            relight::core::OpenIntent::ToolCall { tool, .. } => Some(tool.clone()),
            relight::core::OpenIntent::ModelCall => None,
        }
    }

    /// What ended the drive, and how to go on where that is possible.
    fn explain(&self, run: RunId, error: RuntimeError, is_recorded: bool) -> Failure {
        let resume = self.resume_command(run);
        let hints = match &error {
            RuntimeError::Model(error) => {
                let about_keys = (error.kind == ErrorKind::Authentication).then(|| KEYS.to_owned());
                let go_on = is_recorded.then(|| format!("nothing recorded is lost, go on with `{resume}`"));
                [about_keys, go_on]
            }
            RuntimeError::Store(
                StoreError::Full { .. } | StoreError::ReadOnly { .. } | StoreError::Busy { .. },
            ) => [None, is_recorded.then(|| format!("go on with `{resume}`"))],
            RuntimeError::Diverged(divergence)
                if divergence.recorded["agent_hash"] != divergence.asked["agent_hash"] =>
            {
                [Some(OTHER_AGENT.to_owned()), None]
            }
            _ => [None, None],
        };
        hints.into_iter().flatten().fold(Failure::from(error), |failure, hint| failure.with_hint(&hint))
    }

    fn interrupted(&self, run: RunId, exit: Exit, is_recorded: bool) -> Failure {
        if is_recorded {
            Failure::new(exit, format!("interrupted; go on with `{}`", self.resume_command(run)))
        } else {
            Failure::new(exit, "interrupted before anything was recorded")
        }
    }

    async fn is_known(&self, run: RunId) -> bool {
        matches!(self.store.head(run).await, Ok(Some(_)))
    }

    fn resume_command(&self, run: RunId) -> String {
        let agent = shell_word(&self.args.agent.display().to_string());
        let base_url = match &self.args.base_url {
            Some(url) => format!(" --base-url {}", shell_word(url)),
            None => String::new(),
        };
        format!("relight resume {run} --agent {agent}{base_url}{}", store::flag(&self.address))
    }
}

/// Where a server refuses the key, this is what newcomers have overlooked.
const KEYS: &str = "a server other than the protocol's own is sent a key only where `provider.api_key_env` in the \
                    agent file names its variable";

const OTHER_AGENT: &str = "the agent file is another agent's, or its model, prompts, tools or schemas were changed \
                           since the run began";

/// How a drive ended, in one word, and in full.
struct End {
    status: &'static str,
    output: Option<Value>,
    result: Result<Exit, Failure>,
}

impl End {
    const fn stopped(status: &'static str, failure: Failure) -> Self {
        Self { status, output: None, result: Err(failure) }
    }

    fn as_json(&self, run: Option<RunId>) -> Value {
        match &self.result {
            Ok(_) => json!({"run": run, "status": self.status, "output": self.output}),
            Err(failure) => json!({"run": run, "status": self.status, "message": failure.to_string()}),
        }
    }
}

/// A text as it is, anything else as JSON for people; a terminal is spared what would drive it.
fn print(output: &Value) -> Result<(), Failure> {
    use std::io::IsTerminal as _;
    match output {
        Value::String(text) if std::io::stdout().is_terminal() => output::exact_line(harmless(text)),
        Value::String(text) => output::exact_line(text),
        other => output::exact_line(format_args!("{other:#}")),
    }
}

/// Whether the answer was streamed to the terminal that stdout is, so that printing it would say it twice.
fn is_on_this_terminal(output: &Value, shown: Option<&str>) -> bool {
    use std::io::IsTerminal as _;
    let both = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    both && shown.is_some() && output.as_str() == shown
}

/// The signals that end a drive.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Unexpected, format!("cannot listen for signals: {error}"))
            })
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
