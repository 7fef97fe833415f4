//! Tools that panic, fail, return too much, change, or are asked for what does not fit.

use std::sync::Arc;

use relight_core::{Effect, Event, Resolution, RunStatus, Seq, ToolFailure, ToolOutcome, WaitReason};
use relight_runtime::{Runtime, RuntimeError, Tool, ToolCall, ToolError, ToolSpec};
use relight_store::{EventStore, RunQuery};
use serde_json::{Value, json};

use crate::support::{Acts, Finds, Ledger, begun, input_of, kinds, log, memory, new_run, seed, until};

fn failure(outcome: ToolOutcome) -> ToolFailure {
    match outcome {
        ToolOutcome::Failed(failure) => failure,
        other => panic!("a failure, not {other:?}"),
    }
}

fn waits(result: Result<ToolOutcome, RuntimeError>) -> (Seq, String) {
    match result {
        Err(RuntimeError::NeedsReconciliation(write)) => (write.intent, write.why),
        other => panic!("it waits for a person, not {other:?}"),
    }
}

#[tokio::test]
async fn a_tool_that_panics_is_an_outcome_for_a_read_and_unknown_for_a_write() {
    for acts in [Acts::PanicsAtOnce, Acts::WorksAndPanics] {
        for effect in [Effect::Read, Effect::Idempotent] {
            let tool = Ledger::new("tool", effect, Finds::Nothing).acts(acts.clone());
            let mut ctx = begun(&memory(), new_run()).await;
            let failure = failure(ctx.tool_call(tool.as_ref(), json!({})).await.unwrap());
            assert_eq!(
                (failure.code.as_str(), failure.message.as_str()),
                ("panicked", "the tool tool panicked")
            );
        }
        for finds in [Finds::Nothing, Finds::Panics] {
            let (store, run) = (memory(), new_run());
            let tool = Ledger::new("tool", Effect::Write, finds).acts(acts.clone());
            let (intent, why) = waits(begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await);
            assert!(why.contains("panicked"), "{why}");
            // The next drive asks the tool first, which may panic again.
            assert_eq!(waits(begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await).0, intent);
            assert_eq!(kinds(&store, run).await, ["run_started", "tool_call_requested", "suspended"]);
        }
    }
}

#[tokio::test]
async fn a_write_that_fails_twice_waits_for_a_person_twice_and_is_done_by_their_word_only() {
    let (store, run) = (memory(), new_run());
    let pay = Ledger::new("pay", Effect::Write, Finds::Nothing).acts(Acts::Fails);
    let runtime = Runtime::new(store.clone());
    let (intent, _) = waits(begun(&store, run).await.tool_call(pay.as_ref(), json!({})).await);
    for _ in 0..2 {
        runtime.resolve(run, intent, Resolution::NotDone {}, "ada").await.unwrap();
        let (again, why) = waits(begun(&store, run).await.tool_call(pay.as_ref(), json!({})).await);
        assert_eq!(again, intent);
        assert!(why.contains("no answer in time"), "{why}");
        let listed = store.list_runs(&RunQuery::default()).await.unwrap().items.remove(0);
        assert!(matches!(listed.status, RunStatus::NeedsReconciliation { .. }), "{listed:?}");
    }
    pay.acts(Acts::Works);
    runtime.resolve(run, intent, Resolution::NotDone {}, "ada").await.unwrap();
    begun(&store, run).await.tool_call(pay.as_ref(), json!({})).await.unwrap();
    assert_eq!(pay.keys().len(), 1);
}

#[tokio::test]
async fn an_output_that_no_log_can_hold_is_told_as_done_and_too_large() {
    let deep = (0..200).fold(json!(0), |inner, _| json!([inner]));
    for (output, code) in [(json!("x".repeat(9 << 20)), "output_too_large"), (deep, "output_too_deep")] {
        for effect in [Effect::Read, Effect::Write] {
            let (store, run) = (memory(), new_run());
            let tool = Ledger::new("tool", effect, Finds::Nothing).acts(Acts::Returns(output.clone()));
            let live = begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await.unwrap();
            let replayed = begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await.unwrap();
            assert_eq!(live, replayed);
            let failure = failure(live);
            assert_eq!(failure.code, code);
            assert!(failure.message.starts_with("it was done, but"), "{failure}");
            assert_eq!(tool.keys().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_failure_that_has_too_much_to_say_is_cut_and_recorded() {
    for effect in [Effect::Read, Effect::Write] {
        let (store, run) = (memory(), new_run());
        let tool = Ledger::new("tool", effect, Finds::Nothing).acts(Acts::FailsWith("é".repeat(20 << 20)));
        let live = begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await.unwrap();
        assert_eq!(begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await.unwrap(), live);
        let failure = failure(live);
        assert!(
            failure.message.len() < 70_000 && failure.message.ends_with('…'),
            "{}",
            failure.message.len()
        );
    }
}

#[tokio::test]
async fn an_input_that_no_log_can_hold_is_refused_before_the_tool_runs() {
    let deep = (0..120).fold(json!({}), |inner, _| json!({"a": inner}));
    for effect in [Effect::Read, Effect::Write] {
        let (store, run) = (memory(), new_run());
        let tool = Ledger::new("tool", effect, Finds::Certainly);
        let refused = begun(&store, run).await.tool_call(tool.as_ref(), deep.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("deeper"), "{refused}");
        assert!(tool.keys().is_empty());
        assert_eq!(log(&store, run).await.len(), 1);
    }
}

#[tokio::test]
async fn an_input_that_is_not_what_the_schema_says_is_an_outcome_and_the_tool_does_not_run() {
    for input in [json!(null), json!([]), json!("text"), json!(7)] {
        let (store, run) = (memory(), new_run());
        let tool = Ledger::new("tool", Effect::Write, Finds::Certainly);
        let live = begun(&store, run).await.tool_call(tool.as_ref(), input.clone()).await.unwrap();
        assert_eq!(begun(&store, run).await.tool_call(tool.as_ref(), input).await.unwrap(), live);
        let failure = failure(live);
        assert_eq!(failure.code, "invalid_input");
        assert_eq!(
            failure.message,
            "the input was refused: the whole value does not fit the schema's rule /type"
        );
        assert!(tool.keys().is_empty());
    }
}

/// A dangling call that was recorded with one effect is met by a tool that declares another.
async fn redeclared(
    recorded: Effect,
    declared: Effect,
    finds: Finds,
) -> (Result<ToolOutcome, RuntimeError>, usize) {
    let (store, run) = (memory(), new_run());
    let key = (recorded != Effect::Read).then(|| "key".to_owned());
    let intent = Event::tool_call_requested("tool", json!({}), recorded, key);
    seed(&store, run, vec![Event::run_started("test", json!("input")), intent]).await;
    let tool = Ledger::new("tool", declared, finds);
    let result = begun(&store, run).await.tool_call(tool.as_ref(), json!({})).await;
    (result, tool.keys().len())
}

#[tokio::test]
async fn a_tool_whose_effect_was_declared_otherwise_is_treated_as_the_more_careful_of_both() {
    use Effect::{Idempotent, Read, Write};
    for (recorded, declared) in
        [(Read, Write), (Write, Read), (Idempotent, Write), (Write, Idempotent), (Write, Write)]
    {
        let (result, done) = redeclared(recorded, declared, Finds::Nothing).await;
        waits(result);
        assert_eq!(done, 0, "{recorded:?} {declared:?}");
    }
    for (recorded, declared) in [(Read, Read), (Read, Idempotent), (Idempotent, Read)] {
        let (result, done) = redeclared(recorded, declared, Finds::Nothing).await;
        result.unwrap();
        assert_eq!(done, 1, "{recorded:?} {declared:?}");
    }
}

#[tokio::test]
async fn a_read_that_answers_soon_is_recorded_in_one_append_and_a_slow_one_shows_while_it_runs() {
    use relight_testkit::faults::{FailingStore, StoreCall};
    let (counting, run) = (FailingStore::counting(memory()), new_run());
    let store: Arc<dyn EventStore> = counting.clone();
    let read = Ledger::new("read", Effect::Read, Finds::Nothing);
    begun(&store, run).await.tool_call(read.as_ref(), json!({})).await.unwrap();
    assert_eq!(kinds(&store, run).await, ["run_started", "tool_call_requested", "tool_call_completed"]);
    assert_eq!(counting.calls(StoreCall::Append), 2);

    let run = new_run();
    read.acts(Acts::Hangs);
    let mut ctx = begun(&store, run).await;
    tokio::select! {
        ended = ctx.tool_call(read.as_ref(), json!({})) => panic!("it hangs, but ended: {ended:?}"),
        () = async {
            until(async || log(&store, run).await.len() == 2).await;
        } => {}
    }
}

/// A tool that is another one each time it is asked what it is.
struct Fickle(Vec<ToolSpec>, std::sync::atomic::AtomicUsize);

#[async_trait::async_trait]
impl Tool for Fickle {
    fn spec(&self) -> &ToolSpec {
        let asked = self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        &self.0[asked % self.0.len()]
    }

    async fn call(&self, _: ToolCall<'_>) -> Result<Value, ToolError> {
        Err(ToolError::new("timed_out", "no answer in time"))
    }
}

#[tokio::test]
async fn a_tool_is_asked_once_a_call_what_it_is() {
    let (store, run) = (memory(), new_run());
    let specs = [("a", Effect::Write), ("b", Effect::Read), ("c", Effect::Idempotent)];
    let specs = specs.map(|(name, effect)| ToolSpec::new(name, "Changes.", effect));
    let tool = Fickle(specs.to_vec(), Default::default());
    let (intent, _) = waits(begun(&store, run).await.tool_call(&tool, json!({})).await);
    let log = log(&store, run).await;
    assert!(
        matches!(&log[1].event, Event::ToolCallRequested { tool, effect: Effect::Write, .. } if tool == "a")
    );
    assert!(!input_of(&log, intent).1.is_empty());
}

#[tokio::test]
async fn what_a_person_must_know_stands_in_the_error_and_the_log() {
    let (store, run) = (memory(), new_run());
    let pay = Ledger::new("pay", Effect::Write, Finds::Nothing).acts(Acts::WorksAndFails);
    let input = json!({"to": "alice", "amount": 5});
    let error = begun(&store, run).await.tool_call(pay.as_ref(), input.clone()).await.unwrap_err();
    let text = error.to_string();
    let RuntimeError::NeedsReconciliation(write) = error else { panic!("{error:?}") };
    let log = log(&store, run).await;
    assert_eq!((&write.input, write.tool.as_str()), (&input, "pay"));
    assert_eq!((write.input.clone(), write.idempotency_key.clone()), input_of(&log, write.intent));
    assert_eq!(pay.keys().as_slice(), std::slice::from_ref(&write.idempotency_key));
    for part in ["pay", "no answer in time", "it keeps no index", &format!("relight resolve {run} 2")] {
        assert!(text.contains(part), "{text}");
    }
    let Event::Suspended { reason: WaitReason::Reconciliation { intent, why }, .. } = &log[2].event else {
        panic!("{:?}", log[2])
    };
    assert_eq!((*intent, why), (write.intent, &write.why));
}

#[test]
fn a_tool_call_needs_no_runtime_where_nothing_of_it_waits() {
    struct Now(ToolSpec);
    #[async_trait::async_trait]
    impl Tool for Now {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        async fn call(&self, _: ToolCall<'_>) -> Result<Value, ToolError> {
            Ok(json!("now"))
        }
    }
    /// Is ready at the second time of asking, by any executor's clock.
    struct Later(ToolSpec);
    #[async_trait::async_trait]
    impl Tool for Later {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        async fn call(&self, _: ToolCall<'_>) -> Result<Value, ToolError> {
            futures::future::poll_fn({
                let mut asked = false;
                move |context| {
                    if std::mem::replace(&mut asked, true) {
                        return std::task::Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
            })
            .await;
            Ok(json!("later"))
        }
    }
    let spec = |effect| ToolSpec::new("tool", "Answers.", effect);
    let tools: [Arc<dyn Tool>; 4] = [
        Arc::new(Now(spec(Effect::Read))),
        Arc::new(Now(spec(Effect::Write))),
        Arc::new(Later(spec(Effect::Read))),
        Arc::new(Later(spec(Effect::Write))),
    ];
    for (executor, tools) in [("none", &tools[..]), ("a tokio runtime without a clock", &tools[..2])] {
        for tool in tools {
            let calls = async {
                let store: Arc<dyn EventStore> = memory();
                let mut ctx = begun(&store, new_run()).await;
                ctx.tool_call(tool.as_ref(), json!({})).await.unwrap()
            };
            let outcome = match executor {
                "none" => futures::executor::block_on(calls),
                _ => tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(calls),
            };
            assert!(matches!(outcome, ToolOutcome::Returned(_)), "{executor}: {outcome:?}");
        }
    }
}
