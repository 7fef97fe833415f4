//! The demo as it happens: one column of labels, one of what is said and done.

use relight::{Event, core::ToolOutcome};
use serde_json::Value;

use super::{
    drive::{Drive, Notice},
    script,
};
use crate::{
    failure::Failure,
    output::{
        self, style,
        text::{count, harmless, shortened},
    },
};

/// What is shown, and where its last line ends.
pub(super) struct Screen {
    /// The column behind the model's last word; zero where the model does not speak.
    column: usize,
    /// Calls that the log answered, to be told before what is new.
    has_told_replay: bool,
    /// The write that an earlier drive left open, while nobody knows its outcome.
    open_write: bool,
}

impl Screen {
    pub(super) const fn new() -> Self {
        Self { column: 0, has_told_replay: true, open_write: false }
    }

    pub(super) fn opening(&self) -> Result<(), Failure> {
        let (bold, dim) = (style::BOLD, style::DIM);
        output::line(format_args!(
            "\n{bold}relight demo{bold:#}  an agent's run, killed twice and relit\n\n\
             {dim}A customer writes: “{}”\n\
             An agent deals with it. Its model is scripted, on loopback; all else is real:\n\
             the processes, the SQLite file, the money's ledger, and SIGKILL.{dim:#}",
            script::COMPLAINT
        ))
    }

    pub(super) fn drive_began(&mut self, drive: &Drive, does: &str) -> Result<(), Failure> {
        self.has_told_replay = false;
        output::line(format_args!("\n{0}● process {1}{0:#} {does}", style::BOLD, drive.process()))
    }

    pub(super) fn show(&mut self, drive: &Drive, notice: &Notice) -> Result<(), Failure> {
        match notice {
            Notice::Replayed => Ok(()),
            Notice::Text { text } => self.speak(text),
            Notice::Recorded { event } => self.recorded(drive, &event.event),
        }
    }

    fn recorded(&mut self, drive: &Drive, event: &Event) -> Result<(), Failure> {
        match event {
            Event::DriveStarted { drive: number, .. } if *number > 1 && !self.has_told_replay => {
                self.has_told_replay = true;
                let calls = count(drive.replayed(), "call");
                let what = format!("{calls} answered from the log: nothing is asked or done again");
                self.say("replay", style::GOOD, &what)
            }
            Event::ToolCallRequested { tool, input, .. } => {
                self.open_write = tool == script::WRITE;
                self.say("tool", style::ACTION, &format!("{tool} {input}"))
            }
            Event::ToolCallCompleted { outcome, .. } => {
                // The drive that asked would have recorded the asking, too.
                let was_asked_before = !drive.has_asked(script::WRITE) && self.open_write;
                self.open_write = false;
                if was_asked_before {
                    self.say(
                        "?",
                        style::WAITS,
                        "was the money sent? the log cannot know, so the bank is asked",
                    )?;
                    return self.say(
                        "",
                        style::DIM,
                        "it was: its receipt is recorded, and nothing is sent again",
                    );
                }
                self.say("", style::DIM, &shown(outcome))
            }
            Event::RunCompleted { .. } => self.say("done", style::GOOD, "the run is complete"),
            _ => Ok(()),
        }
    }

    /// Words come one by one, with the space before them.
    fn speak(&mut self, text: &str) -> Result<(), Failure> {
        let text = harmless(text);
        let word = text.trim_start();
        if self.column == 0 {
            output::write(format_args!("  {0}{1:<8}{0:#}{word}", style::BOLD, "model"))?;
            self.column = INDENT;
        } else if self.column + text.chars().count() > WIDTH {
            output::write(format_args!("\n{:INDENT$}{word}", ""))?;
            self.column = INDENT;
        } else {
            output::write(&text)?;
            self.column += text.chars().count() - word.chars().count();
        }
        self.column += word.chars().count();
        Ok(())
    }

    fn say(&mut self, label: &str, style: anstyle::Style, what: &str) -> Result<(), Failure> {
        if std::mem::take(&mut self.column) > 0 {
            output::line("")?;
        }
        let what = shortened(what, WIDTH - INDENT);
        let (begin, end) = if label.is_empty() {
            (style.render().to_string(), style.render_reset().to_string())
        } else {
            Default::default()
        };
        output::line(format_args!("  {style}{label:<8}{style:#}{begin}{what}{end}"))
    }

    pub(super) fn money_has_left(&mut self) -> Result<(), Failure> {
        self.say("", style::DIM, "the bank has booked it in ledger.jsonl; its answer is on the way")
    }

    pub(super) fn killed(&mut self, when: &str) -> Result<(), Failure> {
        self.say("SIGKILL", style::BAD, when)
    }
}

fn shown(outcome: &ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Returned(Value::String(text)) => text.lines().collect::<Vec<_>>().join(" · "),
        ToolOutcome::Returned(value) => value.to_string(),
        ToolOutcome::Failed(failure) => failure.to_string(),
    }
}

const INDENT: usize = 10;
/// Many terminals are no wider.
const WIDTH: usize = 80;
