//! A model of one's own: it runs in this very process, drives a durable agent, and passes the conformance suite.
//!
//! Run it with `cargo run -p relight --example custom_provider`; it prints an answer, and what became of each promise.

use std::{error::Error, sync::Arc};

use relight::{Agent, RunOutcome, Runtime, Start};
use relight_conformance::{ProviderHarness, Unmet, Way, provider};
use relight_llm::{
    ContentBlock, Delivery, ErrorKind, LlmError, MessageRequest, MessageResponse, MessageStream, Provider,
    StopReason, StreamEvent, Usage,
};
use relight_store::async_trait;

/// Says how many words it was asked, one word at a time.
struct WordCounter;

#[async_trait]
impl Provider for WordCounter {
    async fn stream(&self, request: &MessageRequest) -> Result<MessageStream, LlmError> {
        let Some(asked) = request.messages().last() else {
            return Err(LlmError::new(ErrorKind::InvalidRequest, "nothing was asked"));
        };
        let words = asked.content().text().split_whitespace().count();
        let said = ContentBlock::text(format!("You asked {words} words."));
        let answer = MessageResponse::new("count_1", request.model(), said, StopReason::EndTurn)
            .with_usage(Usage::new(words as u64, 4));
        Ok(stream_of(&answer, Way::Pieces(4)))
    }
    // `send` folds the stream unless there is a better way, and so is equal to it.
}

/// An answer as a stream, its text in pieces. The stream checks what passes through it: an end before the end becomes an
/// error with the beginning inside, and nothing comes behind an error.
fn stream_of(answer: &MessageResponse, way: Way) -> MessageStream {
    let size = if let Way::Pieces(size) = way { size } else { 1 };
    let mut items: Vec<Result<StreamEvent, LlmError>> = Vec::new();
    for event in StreamEvent::of_response(answer) {
        let text = event.text().map(str::to_owned);
        match (event, text) {
            (StreamEvent::BlockStart { index, extra, .. }, Some(text)) => {
                items.push(Ok(StreamEvent::BlockStart { index, block: ContentBlock::text(""), extra }));
                let characters: Vec<char> = text.chars().collect();
                let pieces = characters.chunks(size).map(|piece| piece.iter().collect());
                items.extend(pieces.map(|text| Ok(StreamEvent::TextDelta { index, text })));
            }
            (event, _) => items.push(Ok(event)),
        }
    }
    match way {
        Way::Cut => items.truncate(3),
        Way::Fails => {
            items.truncate(3);
            items.push(Err(LlmError::new(ErrorKind::Overloaded, "too many words")));
        }
        Way::Pieces(_) | Way::Refused => {}
    }
    MessageStream::new(futures::stream::iter(items), Delivery::default())
}

/// For the suite: the same model, but it says what it is told to, in the way it is told to.
struct Told(MessageResponse, Way);

#[async_trait]
impl Provider for Told {
    async fn stream(&self, _: &MessageRequest) -> Result<MessageStream, LlmError> {
        match self.1 {
            Way::Refused => Err(LlmError::new(ErrorKind::InvalidRequest, "no")),
            way => Ok(stream_of(&self.0, way)),
        }
    }
}

struct Harness;

#[async_trait]
impl ProviderHarness for Harness {
    async fn answering(&self, answer: &MessageResponse, way: Way) -> Result<Box<dyn Provider>, Unmet> {
        Ok(Box::new(Told(answer.clone(), way)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder().provider(Arc::new(WordCounter)).model("word-counter").build()?;
    let runtime = Runtime::new(relight::open("memory:").await?);
    let run = runtime.new_run_id();
    let outcome = runtime.start(&agent, Start::from("How many words are these?").with_run_id(run)).await?;
    let RunOutcome::Completed { output } = &outcome else { return Err("the agent did not finish".into()) };
    println!("{output}");
    // The answer is in the log now; resuming asks nobody.
    assert_eq!(runtime.resume(&agent, run).await?, outcome);

    let report = provider::run_all(&Harness).await;
    print!("{report}");
    if report.is_kept() { Ok(()) } else { Err("a promise is broken".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_of_the_example_drives_an_agent_and_keeps_every_promise() {
        main().unwrap();
    }
}
