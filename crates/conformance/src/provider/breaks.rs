//! Answers that break, and callers that leave.

use futures::poll;
use relight_llm::{ErrorKind, LlmError, Provider, Stage};

use super::sample::{answer, request};
use super::{ProviderHarness, Way};
use crate::{Unmet, Verdict, report::expect_equal};

/// An end before the end is an error in the stream, with the beginning inside it, of which no call may be run.
pub async fn an_answer_that_is_cut_is_an_error_with_its_beginning(harness: &dyn ProviderHarness) -> Verdict {
    let error = broken(harness, Way::Cut).await?;
    if !matches!(error.kind, ErrorKind::Truncated | ErrorKind::Connection) {
        return Err(Unmet::Broken(format!("a cut is {:?}, expected Truncated or Connection", error.kind)));
    }
    let calls = error.partial.iter().flat_map(|partial| partial.tool_uses()).count();
    expect_equal("the calls of a cut answer that may be run", calls, 0)
}

/// What a server reports in mid answer is that error, and no second one, nor any event, comes behind it.
pub async fn a_failure_in_mid_answer_is_typed_and_ends_the_stream(harness: &dyn ProviderHarness) -> Verdict {
    let error = broken(harness, Way::Fails).await?;
    expect_equal("the kind of the error", error.kind, ErrorKind::Overloaded)
}

/// A refused request is an error of the call, not of a stream, and says that the request is at fault.
pub async fn a_refusal_is_an_error_before_the_answer(harness: &dyn ProviderHarness) -> Verdict {
    let provider = harness.answering(&answer(), Way::Refused).await?;
    let streamed = provider.stream(&request()).await.err();
    let sent = provider.send(&request()).await.err();
    for (call, error) in [("stream", streamed), ("send", sent)] {
        let Some(error) = error else {
            return Err(Unmet::Broken(format!("{call} of a refused request is Ok")));
        };
        let found = (error.kind, error.stage, error.partial);
        expect_equal(call, found, (ErrorKind::InvalidRequest, Stage::BeforeAnswer, None))?;
    }
    Ok(())
}

/// An error that was recorded replays as the same error.
pub async fn errors_read_back_from_their_record(harness: &dyn ProviderHarness) -> Verdict {
    for way in [Way::Cut, Way::Fails] {
        let error = broken(harness, way).await?;
        let record = serde_json::to_string(&error).map_err(|error| Unmet::Broken(error.to_string()))?;
        let read: Result<LlmError, _> = serde_json::from_str(&record);
        expect_equal("the error that was read", read.ok(), Some(error))?;
    }
    Ok(())
}

/// A stream that is dropped in mid answer costs the provider nothing.
pub async fn dropping_a_stream_leaves_the_provider_usable(harness: &dyn ProviderHarness) -> Verdict {
    let provider = harness.answering(&answer(), Way::Pieces(7)).await?;
    for taken in 0..4 {
        let mut stream = provider.stream(&request()).await?;
        for _ in 0..taken {
            stream.next().await;
        }
        drop(stream);
        check_usable(&*provider).await?;
    }
    Ok(())
}

/// Neither does a call whose future is dropped.
pub async fn dropping_a_call_leaves_the_provider_usable(harness: &dyn ProviderHarness) -> Verdict {
    let provider = harness.answering(&answer(), Way::Pieces(7)).await?;
    for polls in [0, 1, 2, 5] {
        let asked = request();
        let (mut streaming, mut sending) = (provider.stream(&asked), provider.send(&asked));
        for _ in 0..polls {
            if poll!(&mut streaming).is_ready() || poll!(&mut sending).is_ready() {
                break;
            }
        }
        drop((streaming, sending));
        check_usable(&*provider).await?;
    }
    Ok(())
}

async fn check_usable(provider: &dyn Provider) -> Verdict {
    let reply = provider.stream(&request()).await?.into_reply().await?;
    expect_equal("the answer after another was dropped", reply.response, answer())
}

/// The error of an answer that breaks after its beginning.
async fn broken(harness: &dyn ProviderHarness, way: Way) -> Result<LlmError, Unmet> {
    let provider = harness.answering(&answer(), way).await?;
    let mut stream = provider.stream(&request()).await?;
    while let Some(event) = stream.next().await {
        let Err(error) = event else { continue };
        expect_equal("events behind an error", stream.next().await.is_some(), false)?;
        let begun =
            error.partial.as_ref().is_some_and(|partial| answer().text().starts_with(&partial.text()));
        expect_equal("whether the beginning is in the error", begun, true)?;
        expect_equal("how far the answer had come", error.stage, Stage::MidStream)?;
        return Ok(error);
    }
    Err(Unmet::Broken(format!("an answer that breaks ({way:?}) ends like a whole one")))
}
