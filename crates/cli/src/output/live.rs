//! A drive as a person at a terminal sees it: text as it arrives, tool calls, and a line that says what is awaited.

use std::{
    io::{Write as _, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use relight::{Event, EventEnvelope, StreamEvent, core::ToolOutcome, llm::ContentBlock, runtime::Notice};

use super::{
    note, style,
    text::{count, harmless, shortened},
    width,
};

/// What stands on the terminal.
#[derive(Default)]
pub(crate) struct Live {
    began: Option<Instant>,
    replayed: u64,
    model_calls: u64,
    tokens: u64,
    /// The line that says what is awaited; drawn on a terminal only.
    awaited: Option<ProgressBar>,
    /// The model's answer that arrives, or arrived last.
    answer: String,
    /// Whether the cursor stands behind text.
    in_line: bool,
}

impl Live {
    pub(crate) fn show(&mut self, notice: Notice<'_>) {
        self.began.get_or_insert_with(Instant::now);
        match notice {
            Notice::Replayed => self.replayed += 1,
            Notice::Recorded(envelope) => self.recorded(envelope),
            Notice::Streamed(event) => self.streamed(event),
            _ => {}
        }
    }

    /// Ends what is begun; returns the answer that stands last, if one does.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.end_line();
        if let Some(began) = self.began.take()
            && self.model_calls > 0
        {
            let seconds = began.elapsed().as_secs_f32();
            let (calls, tokens) = (count(self.model_calls, "model call"), count(self.tokens, "token"));
            self.say(format!("{0}{seconds:.1} s · {calls} · {tokens}{0:#}", style::DIM));
        }
        (!self.answer.is_empty()).then(|| std::mem::take(&mut self.answer))
    }

    fn recorded(&mut self, envelope: &EventEnvelope) {
        match &envelope.event {
            Event::RunStarted { .. } => {
                self.say(format!("{0}run {1}{0:#}", style::DIM, envelope.run_id));
            }
            Event::DriveStarted { drive, .. } if *drive > 1 => {
                let calls = count(self.replayed, "recorded call");
                self.say(format!("{0}↻ {calls} replayed, nothing done again{0:#}", style::DIM));
                self.wait_for("the run goes on".to_owned());
            }
            Event::ModelCallRequested { .. } => self.wait_for("the model is asked".to_owned()),
            Event::ModelCallCompleted { usage, .. } => {
                self.end_line();
                self.model_calls += 1;
                self.tokens += usage.total();
            }
            Event::ToolCallRequested { tool, input, .. } => {
                self.answer.clear();
                let input =
                    shortened(&input.to_string(), width(stderr(), WIDTH).saturating_sub(tool.len() + 4));
                self.say(format!("{0}→ {tool}{0:#} {input}", style::ACTION));
                self.wait_for(format!("{tool} is at work"));
            }
            Event::ToolCallCompleted { outcome, .. } => {
                let (style, outcome) = match outcome {
                    ToolOutcome::Returned(value) => (style::DIM, value.to_string()),
                    ToolOutcome::Failed(failure) => (style::BAD, failure.to_string()),
                };
                self.say(format!(
                    "{style}← {}{style:#}",
                    shortened(&outcome, width(stderr(), WIDTH).saturating_sub(4))
                ));
            }
            _ => {}
        }
    }

    fn streamed(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::BlockStart { block: ContentBlock::ToolUse { name, .. }, .. } => {
                self.wait_for(format!("the model calls {}", shortened(name, 64)));
            }
            StreamEvent::BlockStart { block: ContentBlock::Thinking { .. }, .. } => {
                self.wait_for("the model thinks".to_owned());
            }
            event => {
                if let Some(text) = event.text() {
                    self.text(text);
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.stop_waiting();
        if !self.in_line {
            self.answer.clear();
        }
        self.answer.push_str(text);
        self.in_line = true;
        let mut stderr = stderr().lock();
        let _ = write!(stderr, "{}", harmless(text)).and_then(|()| stderr.flush());
    }

    fn say(&mut self, line: String) {
        self.end_line();
        note(line);
    }

    fn end_line(&mut self) {
        self.stop_waiting();
        if self.in_line {
            self.in_line = false;
            note("");
        }
    }

    fn wait_for(&mut self, what: String) {
        self.end_line();
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("the template is right");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        self.awaited = Some(bar);
    }

    fn stop_waiting(&mut self) {
        if let Some(bar) = self.awaited.take() {
            bar.finish_and_clear();
        }
    }
}

/// A stream that is cut leaves its line open, and the shell's prompt behind it.
impl Drop for Live {
    fn drop(&mut self) {
        self.end_line();
    }
}

const WIDTH: usize = 100;
