//! Whole answers: the same, however they come.

use relight_llm::StreamEvent;

use super::sample::{answer, answers, request};
use super::{ProviderHarness, Way};
use crate::{Unmet, Verdict, report::expect_equal};

/// Wherever the bytes of a stream are cut, the folded answer is the one that was given.
pub async fn any_chunking_gives_the_same_message(harness: &dyn ProviderHarness) -> Verdict {
    for answer in answers() {
        for size in [1, 2, 3, 7, 64, 1 << 20] {
            let provider = harness.answering(&answer, Way::Pieces(size)).await?;
            let reply = provider.stream(&request()).await?.into_reply().await?;
            expect_equal(&format!("the answer in pieces of {size} bytes"), &reply.response, &answer)?;
        }
    }
    Ok(())
}

/// What `send` gives is equal to what a stream folds to, and both are recorded alike.
pub async fn send_equals_the_folded_stream(harness: &dyn ProviderHarness) -> Verdict {
    for answer in answers() {
        let provider = harness.answering(&answer, Way::Pieces(1 << 20)).await?;
        let sent = provider.send(&request()).await?.response;
        let folded = provider.stream(&request()).await?.into_reply().await?.response;
        expect_equal("the answer that was sent", &sent, &folded)?;
        expect_equal("its record", serde_json::to_string(&sent).ok(), serde_json::to_string(&folded).ok())?;
    }
    Ok(())
}

/// The first event starts the answer, the last one ends it, and nothing comes behind.
pub async fn a_stream_ends_with_its_terminal_event(harness: &dyn ProviderHarness) -> Verdict {
    let provider = harness.answering(&answer(), Way::Pieces(64)).await?;
    let mut stream = provider.stream(&request()).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    let begins = matches!(events.first(), Some(StreamEvent::MessageStart { .. }));
    let ends = matches!(events.last(), Some(StreamEvent::MessageStop));
    let text: String = events.iter().filter_map(StreamEvent::text).collect();
    expect_equal("the text of the events", text, answer().text())?;
    if begins && ends && stream.next().await.is_none() {
        return Ok(());
    }
    Err(Unmet::Broken(format!("the events do not begin and end as they must: {events:?}")))
}
