//! Model calls: recorded before they are made and when they end, and never made again once recorded.

use relight_core::{
    Digest, Event, EventEnvelope, Lane, LogError, Role, Seq, TokenUsage,
    replay::{Ask, Settled, Step},
    request::{self, Transcript},
};
use relight_llm::{
    Delivery, ErrorKind, LlmError, Message, MessageRequest, MessageResponse, Provider, Reply, StreamEvent,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Recording, RunCtx};
use crate::{error::RuntimeError, observer::Notice};

/// A model's answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelTurn {
    /// What the model answered.
    pub response: MessageResponse,
    /// What it cost.
    pub usage: TokenUsage,
    /// How the answer came; `None` where it was replayed.
    pub delivery: Option<Delivery>,
}

/// Called with each event of a streamed answer, as it arrives.
type OnEvent<'a> = &'a mut (dyn FnMut(&StreamEvent) + Send);

impl RunCtx {
    /// Asks a model, or returns what it answered before.
    ///
    /// The intent is durable before the request is sent, the answer before it is returned. A call that was begun by
    /// an earlier drive and never answered is made again.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Model`] where the model fails; code may go on from it, and replay returns the same error.
    /// Every other error stops the context.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the intent as the log's last event, and the context refuses to go on.
    ///
    /// # Examples
    ///
    /// Another model where the first one fails; a replay takes the same way:
    ///
    /// ```
    /// use relight_llm::{MessageRequest, Provider};
    /// use relight_runtime::{ModelTurn, RunCtx, RuntimeError};
    ///
    /// async fn ask(
    ///     ctx: &mut RunCtx,
    ///     model: &dyn Provider,
    ///     first: &MessageRequest,
    ///     second: &MessageRequest,
    /// ) -> Result<ModelTurn, RuntimeError> {
    ///     match ctx.model_call(model, first).await {
    ///         Err(RuntimeError::Model(_)) => ctx.model_call(model, second).await,
    ///         other => other,
    ///     }
    /// }
    /// ```
    pub async fn model_call(
        &mut self,
        provider: &dyn Provider,
        request: &MessageRequest,
    ) -> Result<ModelTurn, RuntimeError> {
        self.enter().await?;
        let result = self.answered(provider, request, None).await;
        self.leave(result)
    }

    /// As [`model_call`](RunCtx::model_call), with each event of the answer handed over as it arrives.
    ///
    /// Both leave the same log and replay each other's record. In replay `on_event` is never called.
    ///
    /// # Errors
    ///
    /// As [`model_call`](RunCtx::model_call).
    ///
    /// # Cancel safety
    ///
    /// As [`model_call`](RunCtx::model_call).
    ///
    /// # Examples
    ///
    /// ```
    /// use relight_llm::{MessageRequest, Provider};
    /// use relight_runtime::{RunCtx, RuntimeError};
    ///
    /// async fn show(
    ///     ctx: &mut RunCtx,
    ///     model: &dyn Provider,
    ///     request: &MessageRequest,
    /// ) -> Result<(), RuntimeError> {
    ///     let turn = ctx
    ///         .model_call_streaming(model, request, |event| print!("{}", event.text().unwrap_or_default()))
    ///         .await?;
    ///     if turn.delivery.is_none() {
    ///         println!("(again) {}", turn.response.text());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn model_call_streaming(
        &mut self,
        provider: &dyn Provider,
        request: &MessageRequest,
        mut on_event: impl FnMut(&StreamEvent) + Send,
    ) -> Result<ModelTurn, RuntimeError> {
        self.enter().await?;
        let result = self.answered(provider, request, Some(&mut on_event)).await;
        self.leave(result)
    }

    /// A streaming call that shows its events to whoever watches the drive.
    pub(crate) async fn model_call_observed(
        &mut self,
        provider: &dyn Provider,
        request: &MessageRequest,
    ) -> Result<ModelTurn, RuntimeError> {
        let observer = self.sequencer.observer().clone();
        self.model_call_streaming(provider, request, |event| observer.observe(Notice::Streamed(event))).await
    }

    async fn answered(
        &mut self,
        provider: &dyn Provider,
        request: &MessageRequest,
        on_event: Option<OnEvent<'_>>,
    ) -> Result<ModelTurn, RuntimeError> {
        // What JSON cannot hold has no hash that could tell it from something else.
        request.check().map_err(RuntimeError::Model)?;
        let request_hash = request.hash();
        let whole = || serde_json::to_value(request).expect("a request is JSON");
        let found = self.replay.ask(&self.lane, Ask::ModelCall { request_hash, request: &whole })?;
        let intent = match found.step {
            Step::Recorded(settled) => {
                let ordinal = found.ordinal;
                let replayed = replayed(settled).map_err(|error| self.unreadable(ordinal, &error));
                self.sequencer.observer().observe(Notice::Replayed);
                return replayed?.map_err(RuntimeError::Model);
            }
            Step::Dangling(dangling) => {
                let intent = dangling.intent;
                self.prepare_live()?;
                // Read before anything is paid for: a log that cannot be gone on with is found here.
                if self.recording == Recording::Full {
                    self.transcript()?;
                }
                intent
            }
            Step::Live => {
                self.prepare_live()?;
                self.queue_request(request, request_hash)?
            }
        };
        self.sequencer.flush().await?;
        match ask(provider, request, on_event).await {
            Ok(reply) => self.record_answer(intent, reply).await,
            Err(error) => Err(self.failed(intent, error)),
        }
    }

    fn queue_request(&mut self, request: &MessageRequest, hash: Digest) -> Result<Seq, RuntimeError> {
        if self.recording == Recording::HashOnly {
            return self.sequencer.queue(&self.lane, Event::model_call_requested(hash, None));
        }
        let (messages, rest) = outline(request);
        let message = |index: usize| request.messages()[index].to_value();
        let recorded = self.transcript()?.record(&messages, &rest, message);
        let intent = self.sequencer.queue(&self.lane, Event::model_call_requested(hash, Some(recorded)))?;
        self.transcript()?.requested(intent, messages, rest);
        Ok(intent)
    }

    async fn record_answer(&mut self, intent: Seq, reply: Reply) -> Result<ModelTurn, RuntimeError> {
        let Reply { response, delivery, .. } = reply;
        let usage = tokens(&response);
        let recorded = relight_canonical::to_value(&response)?;
        let completed = Event::model_call_completed(intent, recorded, usage);
        let completion = match self.sequencer.queue(&self.lane, completed) {
            Ok(completion) => completion,
            // No later attempt is sure to be flatter, so code may go on from it as from any failure of a model.
            Err(RuntimeError::Log(error @ LogError::TooDeep { .. })) => {
                let message = format!("the answer cannot be recorded: {error}");
                return Err(self.failed(intent, LlmError::new(ErrorKind::TooLarge, message)));
            }
            Err(error) => return Err(error),
        };
        self.sequencer.flush().await?;
        if let Some(transcript) = &mut self.transcript {
            transcript.answered(response.to_message().digest(), completion);
        }
        Ok(ModelTurn { response, usage, delivery: Some(delivery) })
    }

    /// Keeps the failure until the code goes on from it, which makes it history.
    fn failed(&mut self, intent: Seq, error: LlmError) -> RuntimeError {
        self.failure = Some((intent, error.clone()));
        RuntimeError::Model(error)
    }

    /// What the next request is recorded against; read from the log when the first call is live.
    fn transcript(&mut self) -> Result<&mut Transcript, RuntimeError> {
        if self.transcript.is_none() {
            self.transcript = Some(read_transcript(self.replay.log(), &self.lane)?);
        }
        Ok(self.transcript.as_mut().expect("it was just read"))
    }

    /// The record of a call that this version cannot read back, by the call's ordinal in its lane.
    fn unreadable(&self, ordinal: u64, error: &serde_json::Error) -> RuntimeError {
        let asked =
            |envelope: &&EventEnvelope| envelope.lane == self.lane && envelope.event.role() == Role::Asked;
        let calls = self.replay.log().iter().filter(asked);
        let intent = usize::try_from(ordinal).ok().and_then(|ordinal| calls.clone().nth(ordinal));
        let seq = intent.map_or(Seq::FIRST, |intent| intent.seq);
        let what = format!("the outcome of this model call does not read back: {error}");
        RuntimeError::Log(LogError::Newer { run: self.run, seq, what })
    }
}

async fn ask(
    provider: &dyn Provider,
    request: &MessageRequest,
    on_event: Option<OnEvent<'_>>,
) -> Result<Reply, LlmError> {
    let Some(on_event) = on_event else { return provider.send(request).await };
    let mut stream = provider.stream(request).await?;
    while let Some(event) = stream.next().await {
        on_event(&event?);
    }
    stream.into_reply().await
}

/// What a recorded call returns: an answer, or the failure that the code went on from.
fn replayed(settled: Settled<'_>) -> Result<Result<ModelTurn, LlmError>, serde_json::Error> {
    Ok(match settled {
        Settled::Answered { response, usage } => {
            Ok(ModelTurn { response: MessageResponse::deserialize(response)?, usage, delivery: None })
        }
        Settled::Failed(error) => Err(LlmError::deserialize(error)?),
        Settled::Outcome(_) => unreachable!("a model call is not settled by a tool's outcome"),
    })
}

/// What a request is recorded by: the digests of its messages, and its other fields.
fn outline(request: &MessageRequest) -> (Vec<Digest>, Map<String, Value>) {
    let Value::Object(rest) = request.rest() else { unreachable!("a request's fields are an object") };
    (request.messages().iter().map(Message::digest).collect(), rest)
}

fn read_transcript(log: &[EventEnvelope], lane: &Lane) -> Result<Transcript, LogError> {
    let mut transcript = Transcript::default();
    let of_lane = |envelope: &&EventEnvelope| envelope.lane == *lane;
    let is_request = |envelope: &&EventEnvelope| matches!(envelope.event, Event::ModelCallRequested { .. });
    let Some(last) = log.iter().filter(of_lane).rfind(is_request) else { return Ok(transcript) };
    let Some(full) = request::expand(log, last.seq)? else { return Ok(transcript) };
    let digest = |message: &Value| Message::deserialize(message).ok().map(|message| message.digest());
    // A message that cannot be read here is only recorded once more.
    let Some(messages) = full.messages.iter().map(digest).collect() else { return Ok(transcript) };
    transcript.requested(last.seq, messages, full.rest);
    for envelope in log.iter().filter(of_lane).filter(|envelope| envelope.seq > last.seq) {
        if let Event::ModelCallCompleted { response, .. } = &envelope.event
            && let Some(message) = digest(&request::answer_message(response))
        {
            transcript.answered(message, envelope.seq);
        }
    }
    Ok(transcript)
}

fn tokens(response: &MessageResponse) -> TokenUsage {
    let usage = &response.usage;
    TokenUsage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
    }
}
