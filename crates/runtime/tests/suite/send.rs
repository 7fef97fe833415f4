//! All futures are `Send`, and all that is shared may be.

use relight_core::{Resolution, RunId, Seq, budget::Limit};
use relight_llm::{MessageRequest, Provider, StreamEvent};
use relight_runtime::{
    Agent, AgentBuilder, Budget, Observer, RunCtx, RunOutcome, Runtime, RuntimeError, Schema, Tool, Workflow,
};
use serde_json::{Value, json};

fn send<T: Send>(_: T) {}

fn send_sync<T: Send + Sync + ?Sized>() {}

/// It compiles, which is the test: none of these is run.
#[test]
fn every_future_may_move_to_another_thread() {
    #[allow(dead_code, reason = "that it compiles is the test")]
    fn context(
        ctx: &mut RunCtx,
        model: &dyn Provider,
        request: &MessageRequest,
        tool: &dyn Tool,
        on_event: &mut (dyn FnMut(&StreamEvent) + Send),
    ) {
        send(ctx.begin("code", &json!("input")));
        send(ctx.model_call(model, request));
        send(ctx.model_call_streaming(model, request, |event| on_event(event)));
        send(ctx.tool_call(tool, Value::Null));
        send(ctx.check_budget(&Budget::default()));
        send(ctx.complete("done"));
        send(ctx.fail("code", "message"));
    }
    #[allow(dead_code, reason = "that it compiles is the test")]
    fn runtime(runtime: &Runtime, workflow: &dyn Workflow, run: RunId) {
        send(runtime.start(workflow, "go"));
        send(runtime.resume(workflow, run));
        send(runtime.cancel(run, "ada"));
        send(runtime.raise(run, Limit::Steps, 1, "ada"));
        send(runtime.resolve(run, Seq::FIRST, Resolution::NotDone {}, "ada"));
    }
    send_sync::<Runtime>();
    send_sync::<Agent>();
    send_sync::<Schema>();
    send_sync::<dyn Tool>();
    send_sync::<dyn Workflow>();
    send_sync::<dyn Observer>();
    send_sync::<RuntimeError>();
    send_sync::<RunOutcome>();
    fn only_send<T: Send>() {}
    only_send::<RunCtx>();
    only_send::<AgentBuilder>();
}
