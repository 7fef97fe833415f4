//! The agent that all tests here drive: it looks at a file, pays through a ledger, notes it, and answers.

use std::{
    fs::{self, OpenOptions},
    future,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use relight_core::{Effect, RunId};
use relight_llm::{Client, Config};
use relight_runtime::{Agent, Reconciled, Tool, ToolCall, ToolError, ToolSpec};
use relight_testkit::{Answer, Block, Script};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::{Pause, Work};

/// An agent whose tools work in `folder`; `pause` calls back and never returns where a tool is to stop.
pub(crate) fn agent(model: &str, folder: &Path, pause: Option<(Pause, fn())>) -> Agent {
    let client = Client::new(Config::new().with_base_url(model).with_max_retries(0)).unwrap();
    let builder = Agent::builder().provider(Arc::new(client)).model("model").system("Pay what is due.");
    let tool = |work| Arc::new(FileTool::new(work, folder, pause));
    [Work::Look, Work::Pay, Work::Note]
        .into_iter()
        .fold(builder, |builder, work| builder.tool(tool(work)))
        .build()
        .unwrap()
}

/// What the model says to it: three turns, the second with two calls.
pub(crate) fn answers() -> [Answer; 3] {
    [
        Answer::tool_use("toolu_1", "look", json!({"at": "balance"})),
        Answer::blocks([
            Block::text("The balance is enough, so I pay what is due and make a note of it."),
            Block::tool_use("toolu_2", "pay", json!({"amount": 12.5})),
            Block::tool_use("toolu_3", "note", json!({"text": "paid"})),
        ]),
        Answer::text(ANSWER),
    ]
}

pub(crate) fn script() -> Script {
    answers().into_iter().fold(Script::new(), Script::turn)
}

/// How a run of it ends.
pub(crate) const ANSWER: &str = "All that was due is paid, and the note says so.";

/// One line of what a tool leaves behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) run: RunId,
    pub(crate) key: String,
    pub(crate) input: Value,
}

/// All that a tool left behind in a folder.
pub(crate) fn entries(folder: &Path, work: Work) -> Vec<Entry> {
    let text = fs::read_to_string(file(folder, work)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Prepares a folder for the tools; the balance that each of them returns has so many digits.
pub(crate) fn furnish(folder: &Path, digits: usize) {
    fs::write(file(folder, Work::Look), "9".repeat(digits)).unwrap();
}

fn file(folder: &Path, work: Work) -> PathBuf {
    folder.join(match work {
        Work::Look => "balance.txt",
        Work::Pay => "ledger.jsonl",
        Work::Note => "notes.jsonl",
    })
}

struct FileTool {
    spec: ToolSpec,
    work: Work,
    folder: PathBuf,
    pause: Option<(Pause, fn())>,
}

impl FileTool {
    fn new(work: Work, folder: &Path, pause: Option<(Pause, fn())>) -> FileTool {
        let spec = match work {
            Work::Look => ToolSpec::new("look", "Reads the balance.", Effect::Read),
            Work::Pay => ToolSpec::new("pay", "Pays.", Effect::Write),
            Work::Note => ToolSpec::new("note", "Notes.", Effect::Idempotent),
        };
        FileTool { spec, work, folder: folder.to_owned(), pause }
    }

    async fn pause_at(&self, here: Pause) {
        if let Some((pause, reached)) = self.pause
            && pause == here
        {
            reached();
            future::pending::<()>().await;
        }
    }

    fn work(&self, call: &ToolCall<'_>) -> Result<Value, ToolError> {
        if self.work == Work::Look {
            return Ok(self.output(call));
        }
        let failed = |error: std::io::Error| ToolError::new("io", error.to_string());
        let entry = Entry { run: call.run, key: call.idempotency_key.to_owned(), input: call.input.clone() };
        let line = format!("{}\n", serde_json::to_string(&entry).unwrap());
        // One write: a kill leaves all of the line or nothing.
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(file(&self.folder, self.work))
            .map_err(failed)?;
        file.write_all(line.as_bytes()).map_err(failed)?;
        Ok(self.output(call))
    }

    fn output(&self, call: &ToolCall<'_>) -> Value {
        let balance = fs::read_to_string(file(&self.folder, Work::Look)).unwrap();
        json!({"input": call.input, "balance": balance})
    }
}

#[async_trait]
impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        self.pause_at(Pause::BeforeWork(self.work)).await;
        let done = self.work(&call)?;
        self.pause_at(Pause::AfterWork(self.work)).await;
        Ok(done)
    }

    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        match entries(&self.folder, self.work).iter().any(|entry| entry.key == call.idempotency_key) {
            true => Reconciled::Done(self.output(&call)),
            // A process that is still alive may write the line after this look at the file.
            false => Reconciled::NotDoneYet,
        }
    }
}
