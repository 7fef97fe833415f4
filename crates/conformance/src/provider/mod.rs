//! The promises of a provider, each one a test by itself.

use std::pin::Pin;

use relight_llm::{LlmError, MessageResponse, Provider};
use relight_store::async_trait;

use crate::{Report, Unmet, Verdict, suite};

mod answers;
mod breaks;
mod sample;

pub use answers::*;
pub use breaks::*;

/// Makes providers to test.
#[async_trait]
pub trait ProviderHarness: Send + Sync {
    /// A provider that answers every request with this answer, in this way.
    ///
    /// The answers are such that every protocol can tell them: text, calls of tools, and usage with a cache.
    ///
    /// # Errors
    ///
    /// [`Unmet::NotApplicable`] where the provider's answers cannot come in this way, [`Unmet::Broken`] where it cannot
    /// be made.
    async fn answering(&self, answer: &MessageResponse, way: Way) -> Result<Box<dyn Provider>, Unmet>;
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Whole. On its way it is cut into pieces of so many bytes, wherever that may fall.
    Pieces(usize),
    /// It begins, then ends before it is complete.
    Cut,
    /// It begins, then its server says that it is overloaded.
    Fails,
    /// Nothing of it comes: its server says that the request is wrong.
    Refused,
}

/// Tests every promise, each on providers of its own. A panic counts as a breach.
pub async fn run_all(harness: &dyn ProviderHarness) -> Report {
    let mut entries = Vec::new();
    for (promise, test) in PROMISES {
        entries.push(suite::entry(promise, test(harness)).await);
    }
    Report { entries }
}

/// An answer that should have come.
impl From<LlmError> for Unmet {
    fn from(error: LlmError) -> Self {
        Self::Broken(format!("a call failed: {error}"))
    }
}

type Test = for<'a> fn(&'a dyn ProviderHarness) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// Names each test after its function.
macro_rules! promises {
    ($($test:ident),* $(,)?) => {
        &[$((stringify!($test), |harness| Box::pin($test(harness)))),*]
    };
}

/// Every promise, by its name.
const PROMISES: &[(&str, Test)] = promises![
    any_chunking_gives_the_same_message,
    send_equals_the_folded_stream,
    a_stream_ends_with_its_terminal_event,
    an_answer_that_is_cut_is_an_error_with_its_beginning,
    a_failure_in_mid_answer_is_typed_and_ends_the_stream,
    a_refusal_is_an_error_before_the_answer,
    errors_read_back_from_their_record,
    dropping_a_stream_leaves_the_provider_usable,
    dropping_a_call_leaves_the_provider_usable,
];
