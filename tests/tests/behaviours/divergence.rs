//! Code that asks for something else than its log records gets a report, and the log stays as it was.

use std::sync::Arc;

use relight_core::{Divergence, Effect, Lane, Seq};
use relight_runtime::RuntimeError;
use relight_store::EventStore;
use relight_testkit::{Answer, Script, ScriptedServer};
use serde_json::json;

use crate::support::{Behaviour, Ledger, begun, client, context, log, question, run_id, stores};

struct Recorded {
    store: Arc<dyn EventStore>,
    server: ScriptedServer,
    pay: Arc<Ledger>,
}

/// A run that asked a model, paid, and has not ended.
async fn recorded(store: Arc<dyn EventStore>) -> Recorded {
    let server = ScriptedServer::start(Script::new().turn(Answer::text("yes"))).await.unwrap();
    let pay = Ledger::new("pay", Effect::Write, Behaviour::Reconciles);
    let mut ctx = begun(&store).await;
    ctx.model_call(&client(&server.base_url()), &question("shall I pay?")).await.unwrap();
    ctx.tool_call(pay.as_ref(), json!({"to": "alice", "amount": 5})).await.unwrap();
    Recorded { store, server, pay }
}

impl Recorded {
    /// The report, after a check that nothing was done or written and that the old code goes on.
    async fn check(&self, error: RuntimeError) -> Divergence {
        let RuntimeError::Diverged(divergence) = error else { panic!("{error:?}") };
        assert_eq!(self.server.requests().len(), 1);
        assert_eq!(self.pay.keys().len(), 1);
        assert_eq!(log(&self.store).await.len(), 5);
        let mut ctx = begun(&self.store).await;
        ctx.model_call(&client(&self.server.base_url()), &question("shall I pay?")).await.unwrap();
        ctx.tool_call(self.pay.as_ref(), json!({"to": "alice", "amount": 5.0})).await.unwrap();
        assert_eq!(self.server.requests().len(), 1);
        assert_eq!(divergence.run, run_id());
        assert_eq!(divergence.lane, Lane::ROOT);
        *divergence
    }
}

fn path(divergence: &Divergence) -> String {
    divergence.difference().unwrap().path
}

#[tokio::test]
async fn another_question_names_the_words_that_differ() {
    for store in stores() {
        let recorded = recorded(store).await;
        let mut ctx = begun(&recorded.store).await;
        let client = client(&recorded.server.base_url());
        let error = ctx.model_call(&client, &question("shall I steal?")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("shall I pay?") && text.contains("shall I steal?"), "{text}");
        let divergence = recorded.check(error).await;
        assert_eq!((divergence.seq, divergence.ordinal), (Seq::new(2).unwrap(), Some(0)));
        assert!(path(&divergence).starts_with("/request/messages/0/content"), "{}", path(&divergence));
    }
}

#[tokio::test]
async fn another_tool_another_input_and_another_kind_are_told_apart() {
    for store in stores() {
        let recorded = recorded(store).await;
        let client = client(&recorded.server.base_url());
        let refund = Ledger::new("refund", Effect::Write, Behaviour::Reconciles);

        let mut ctx = begun(&recorded.store).await;
        ctx.model_call(&client, &question("shall I pay?")).await.unwrap();
        let error = ctx.tool_call(refund.as_ref(), json!({"to": "alice", "amount": 5})).await.unwrap_err();
        let divergence = recorded.check(error).await;
        assert_eq!((divergence.seq, divergence.ordinal), (Seq::new(4).unwrap(), Some(1)));
        assert_eq!(path(&divergence), "/tool");

        let mut ctx = begun(&recorded.store).await;
        ctx.model_call(&client, &question("shall I pay?")).await.unwrap();
        let error =
            ctx.tool_call(recorded.pay.as_ref(), json!({"to": "bob", "amount": 5})).await.unwrap_err();
        assert_eq!(path(&recorded.check(error).await), "/input/to");

        let mut ctx = begun(&recorded.store).await;
        let error = ctx.tool_call(recorded.pay.as_ref(), json!({})).await.unwrap_err();
        assert_eq!(path(&recorded.check(error).await), "/kind");
        assert_eq!(refund.keys().len(), 0);
    }
}

#[tokio::test]
async fn an_end_before_all_recorded_calls_were_made_and_another_beginning_are_divergences() {
    for store in stores() {
        let recorded = recorded(store).await;
        let mut ctx = begun(&recorded.store).await;
        ctx.model_call(&client(&recorded.server.base_url()), &question("shall I pay?")).await.unwrap();
        let divergence = recorded.check(ctx.complete("done early").await.unwrap_err()).await;
        assert_eq!(divergence.seq, Seq::new(4).unwrap());

        let mut ctx = context(&recorded.store).await;
        let divergence = recorded.check(ctx.begin("test", &json!("another input")).await.unwrap_err()).await;
        assert_eq!((divergence.seq, path(&divergence).as_str()), (Seq::FIRST, "/input"));

        let mut ctx = context(&recorded.store).await;
        let divergence = recorded.check(ctx.begin("other code", &json!("input")).await.unwrap_err()).await;
        assert_eq!(path(&divergence), "/agent_hash");
    }
}
