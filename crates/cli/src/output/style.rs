//! The few styles of the output. They are dropped where nobody sees them, see `--color`.

use anstyle::{AnsiColor, Style};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WAITS: Style = AnsiColor::Yellow.on_default();
pub(crate) const ACTION: Style = AnsiColor::Cyan.on_default();

/// The style of a status word.
pub(crate) fn of_status(status: relight::store::StatusKind) -> Style {
    use relight::store::StatusKind as S;
    match status {
        S::Completed => GOOD,
        S::Failed | S::Cancelled | S::Cancelling => BAD,
        S::Waiting | S::NeedsReconciliation => WAITS,
        _ => ACTION,
    }
}
