//! One drive of the demo: a process of this very binary, and what it tells on its stderr.

use std::{ffi::OsStr, process::Stdio};

use relight::{Event, EventEnvelope, RunId};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use super::{script, stage::Stage};
use crate::{exit::Exit, failure::Failure, own_binary};

/// A process that drives the run.
pub(super) struct Drive {
    child: Child,
    notices: Lines<BufReader<ChildStderr>>,
    /// What it said that is no notice: an error.
    complaint: Option<String>,
    words: usize,
    facts: DriveFacts,
}

/// What is known of a drive when it is over.
#[derive(Debug, Default)]
pub(super) struct DriveFacts {
    pub(super) process: u32,
    /// How many recorded calls it was answered from the log.
    pub(super) replayed: u64,
    /// What it added to the log.
    pub(super) recorded: Vec<EventEnvelope>,
}

/// A line of `--progress json`.
#[derive(Debug, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Notice {
    Replayed,
    Recorded { event: Box<EventEnvelope> },
    Text { text: String },
}

impl Drive {
    pub(super) fn run(stage: &Stage, base_url: &str) -> Result<Self, Failure> {
        Self::start(stage, base_url, ["run", "--text", script::COMPLAINT])
    }

    pub(super) fn resume(stage: &Stage, base_url: &str, run: RunId) -> Result<Self, Failure> {
        Self::start(stage, base_url, ["resume".to_owned(), run.to_string()])
    }

    fn start(
        stage: &Stage,
        base_url: &str,
        args: impl IntoIterator<Item: AsRef<OsStr>>,
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::new(Exit::Unexpected, format!("a drive cannot be started: {error}"));
        let mut command = Command::new(own_binary::path().map_err(cannot)?);
        command.arg0("relight").args(args);
        command.arg("--agent").arg(stage.agent()).arg("--store").arg(stage.store());
        command.args(["--base-url", base_url, "--json", "--progress", "json"]);
        // The bank is slow enough for the kill to fall into the time between its booking and its answer.
        command.env("BANK_ANSWERS_AFTER", "60");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(cannot)?;
        let notices = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let facts = DriveFacts { process: child.id().unwrap_or_default(), ..DriveFacts::default() };
        Ok(Self { child, notices, complaint: None, words: 0, facts })
    }

    pub(super) fn process(&self) -> u32 {
        self.facts.process
    }

    pub(super) fn replayed(&self) -> u64 {
        self.facts.replayed
    }

    /// How many words of the answer that arrives were heard.
    pub(super) fn words_of_answer(&self) -> usize {
        self.words
    }

    /// Whether the drive has asked for a tool and has no answer yet.
    pub(super) fn asked_for(&self, name: &str) -> bool {
        let last = self.facts.recorded.last().map(|envelope| &envelope.event);
        matches!(last, Some(Event::ToolCallRequested { tool, .. }) if tool == name)
    }

    /// Whether the drive has asked for a tool, answered or not.
    pub(super) fn has_asked(&self, name: &str) -> bool {
        let mut events = self.facts.recorded.iter().map(|envelope| &envelope.event);
        events.any(|event| matches!(event, Event::ToolCallRequested { tool, .. } if tool == name))
    }

    /// What the drive tells next; `None` when it is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Notice>, Failure> {
        loop {
            let line = self.notices.next_line().await.map_err(|error| {
                Failure::new(Exit::Unexpected, format!("a drive cannot be listened to: {error}"))
            })?;
            let Some(line) = line else { return Ok(None) };
            match serde_json::from_str::<Notice>(&line) {
                Ok(notice) => {
                    self.note(&notice);
                    return Ok(Some(notice));
                }
                Err(_) => self.complaint = Some(line),
            }
        }
    }

    fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Replayed => self.facts.replayed += 1,
            Notice::Recorded { event } => {
                self.words = 0;
                self.facts.recorded.push(event.as_ref().clone());
            }
            Notice::Text { .. } => self.words += 1,
        }
    }

    /// Kills the process as `kill -9` does, and hears it out.
    pub(super) async fn kill(mut self) -> Result<DriveFacts, Failure> {
        // It may be over already, which shows in what it recorded.
        let _ = self.child.start_kill();
        while self.next().await?.is_some() {}
        let _ = self.child.wait().await;
        Ok(self.facts)
    }

    /// Waits for the process; returns what it printed.
    pub(super) async fn finish(mut self) -> Result<(DriveFacts, Option<Value>), Failure> {
        let mut printed = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            let _ = stdout.read_to_string(&mut printed).await;
        }
        let ended = self.child.wait().await;
        if !ended.is_ok_and(|status| status.success()) {
            return Err(self.ended_too_early().await);
        }
        let result: Option<Value> = serde_json::from_str(&printed).ok();
        let output = result.and_then(|mut result| result.get_mut("output").map(Value::take));
        Ok((self.facts, output))
    }

    /// Why the demo cannot go on.
    pub(super) async fn ended_too_early(&mut self) -> Failure {
        let why = self.complaint.take().unwrap_or_else(|| "it did not say why".to_owned());
        Failure::new(Exit::Unexpected, format!("process {} ended too early: {why}", self.facts.process))
    }
}

impl DriveFacts {
    /// The run that was driven.
    pub(super) fn run(&self) -> Result<RunId, Failure> {
        let first = self.recorded.first();
        first.map(|envelope| envelope.run_id).ok_or_else(|| {
            Failure::new(Exit::Unexpected, "the first drive recorded nothing before it was killed")
        })
    }
}
