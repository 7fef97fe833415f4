//! Runs one promise's test.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::FutureExt;

use crate::{Entry, Unmet, Verdict};

/// What becomes of a promise. A panic counts as a breach.
pub(crate) async fn entry(promise: &'static str, test: impl Future<Output = Verdict>) -> Entry {
    let verdict = AssertUnwindSafe(test).catch_unwind().await;
    let verdict = verdict.unwrap_or_else(|panic| Err(Unmet::Broken(format!("panicked: {}", text(&*panic)))));
    Entry { promise, verdict }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
