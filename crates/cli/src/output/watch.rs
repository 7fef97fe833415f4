//! What stderr shows while a run is driven.

use std::{
    io::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::ValueEnum;
use relight::runtime::{Notice, Observer};
use serde_json::json;

use super::live::Live;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// `live` on a terminal, else `none`
    Auto,
    /// Text as it arrives, tool calls, and a progress line on a terminal
    Live,
    /// One JSON object a line: what was recorded, what was replayed, text as it arrives
    Json,
    /// Nothing
    None,
}

/// Watches one drive.
pub(crate) struct Watch {
    has_recorded: AtomicBool,
    view: View,
}

enum View {
    Nothing,
    Json,
    Live(Mutex<Live>),
}

impl Watch {
    pub(crate) fn new(progress: Progress) -> Self {
        let on_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let view = match progress {
            Progress::Auto if on_terminal => View::Live(Mutex::new(Live::default())),
            Progress::Auto | Progress::None => View::Nothing,
            Progress::Live => View::Live(Mutex::new(Live::default())),
            Progress::Json => View::Json,
        };
        Self { has_recorded: AtomicBool::new(false), view }
    }

    /// Whether anything was recorded in this drive.
    pub(crate) fn has_recorded(&self) -> bool {
        self.has_recorded.load(Ordering::Relaxed)
    }

    /// Leaves the terminal tidy, and tells which answer of the model stands last on it, if any.
    pub(crate) fn finish(&self) -> Option<String> {
        match &self.view {
            View::Nothing | View::Json => None,
            View::Live(live) => live.lock().unwrap_or_else(PoisonError::into_inner).finish(),
        }
    }
}

impl Observer for Watch {
    fn observe(&self, notice: Notice<'_>) {
        if let Notice::Recorded(_) = notice {
            self.has_recorded.store(true, Ordering::Relaxed);
        }
        match &self.view {
            View::Nothing => {}
            View::Json => write_json(notice),
            View::Live(live) => live.lock().unwrap_or_else(PoisonError::into_inner).show(notice),
        }
    }
}

fn write_json(notice: Notice<'_>) {
    let value = match notice {
        Notice::Replayed => json!({"is": "replayed"}),
        Notice::Recorded(envelope) => json!({"is": "recorded", "event": envelope}),
        Notice::Streamed(event) => match event.text() {
            Some(text) => json!({"is": "text", "text": text}),
            None => return,
        },
        _ => return,
    };
    // One write a line, so that lines of several processes on one terminal stay whole.
    let _ = std::io::stderr().write_all(format!("{value}\n").as_bytes());
}
