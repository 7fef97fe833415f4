//! Clocks, randomness, observers and code that misbehave.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use relight_core::{Effect, RunStatus, StatusKind, WaitReason};
use relight_llm::Provider;
use relight_runtime::{
    Budget, ClockFn, Notice, Observer, RunCtx, RunOutcome, Runtime, RuntimeError, Start, Workflow,
    system_random,
};
use relight_store::{EventStore, StoreError};
use serde_json::{Value, json};

use crate::{
    faults::Clerk,
    support::{Acts, Finds, Ledger, Model, begun, go_on, kinds, log, memory, new_run, question, says, start},
};

/// A clock that shows these times, one after another, and then stays.
fn clock(times: impl IntoIterator<Item = Timestamp>) -> ClockFn {
    let times: Vec<_> = times.into_iter().collect();
    let asked = AtomicUsize::new(0);
    Arc::new(move || times[asked.fetch_add(1, Ordering::SeqCst).min(times.len() - 1)])
}

#[tokio::test]
async fn a_runs_time_never_goes_back_and_reaches_the_ends_of_all_time() {
    let noon: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let back = clock([noon, noon - 5.hours(), Timestamp::MIN, noon + 1.second(), noon]);
    let edges = clock([Timestamp::MIN, Timestamp::MIN, Timestamp::MAX, Timestamp::MIN, Timestamp::MAX]);
    for clock in [back, edges] {
        let (store, run, clerk) = (memory(), new_run(), Clerk::new(Finds::Certainly));
        let runtime = Runtime::new(store.clone()).with_clock(clock);
        runtime.start(&clerk.agent, Start::from("go").with_run_id(run)).await.unwrap();
        let log = log(&store, run).await;
        assert!(log.is_sorted_by_key(|envelope| envelope.recorded_at), "{log:#?}");
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_before_a_resume_goes_on_from_the_runs_own_time() {
    let (store, run) = (memory(), new_run());
    begun(&store, run).await;
    let before = log(&store, run).await[0].recorded_at;
    let early = clock([before - 9.hours()]);
    Runtime::new(store.clone()).with_clock(early).cancel(run, "ada").await.unwrap();
    let times: Vec<_> = log(&store, run).await.iter().map(|envelope| envelope.recorded_at).collect();
    assert_eq!(times, [before; 3]);
}

#[tokio::test]
async fn an_id_that_was_drawn_twice_starts_one_run() {
    let store = memory();
    let noon = clock(["2026-11-30T12:00:00Z".parse().unwrap()]);
    let runtime = Runtime::new(store.clone()).with_clock(noon).with_random(Arc::new(|| 4));
    let clerk = Clerk::new(Finds::Certainly);
    assert_eq!(runtime.new_run_id(), runtime.new_run_id());
    runtime.start(&clerk.agent, "go").await.unwrap();
    let run = runtime.new_run_id();
    let before = log(&store, run).await;
    let refused = runtime.start(&clerk.agent, "go").await.unwrap_err();
    assert!(matches!(refused, RuntimeError::Store(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(log(&store, run).await, before);
    clerk.assert_each_write_was_done_once("the second start did nothing");
}

/// Panics at the nth notice.
struct Fragile(AtomicUsize, usize);

impl Observer for Fragile {
    fn observe(&self, _: Notice<'_>) {
        if self.0.fetch_add(1, Ordering::SeqCst) == self.1 {
            panic!("the observer burns");
        }
    }
}

#[tokio::test]
async fn an_observer_that_panics_ends_the_drive_as_a_crash_would() {
    let run = new_run();
    for notice in 0.. {
        let (store, clerk) = (memory(), Arc::new(Clerk::new(Finds::Certainly)));
        let observer = Arc::new(Fragile(AtomicUsize::new(0), notice));
        let runtime = Runtime::new(store.clone()).with_observer(observer);
        let drive = {
            let clerk = clerk.clone();
            async move { runtime.start(&clerk.agent, Start::from("go").with_run_id(run)).await }
        };
        let crashed = tokio::spawn(drive).await;
        let done = RunOutcome::Completed { output: json!("All is paid.") };
        assert_eq!(go_on(&store, &clerk.agent, run).await.unwrap(), done, "{notice}");
        clerk.assert_each_write_was_done_once(&notice.to_string());
        if crashed.is_ok() {
            assert!(notice > 10, "there is more to see than {notice} notices");
            break;
        }
    }
}

/// Writes down what it sees.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Observer for Diary {
    fn observe(&self, notice: Notice<'_>) {
        self.0.lock().unwrap().push(match notice {
            Notice::Replayed => "replayed".to_owned(),
            Notice::Recorded(envelope) => envelope.event.kind().to_owned(),
            Notice::Streamed(_) => return,
            other => panic!("{other:?}"),
        });
    }
}

#[tokio::test]
async fn an_observer_sees_what_is_replayed_and_what_is_durable() {
    let (store, run, clerk) = (memory(), new_run(), Clerk::new(Finds::Certainly));
    let mut ctx = begun(&store, run).await;
    assert!(!ctx.is_live() || ctx.state().progress().is_some());
    ctx.complete("over").await.unwrap();
    let run = new_run();
    let diary = Arc::new(Diary::default());
    let runtime = Runtime::new(store.clone()).with_observer(diary.clone());
    runtime.start(&clerk.agent, Start::from("go").with_run_id(run)).await.unwrap();
    let recorded = kinds(&store, run).await;
    assert_eq!(*diary.0.lock().unwrap(), recorded);
}

/// What code makes of the errors that it gets: it hides them behind others, or goes on as if nothing were.
struct Careless {
    hides: bool,
    tool: Arc<Ledger>,
    budget: Budget,
}

#[async_trait]
impl Workflow for Careless {
    fn agent_hash(&self) -> String {
        "careless/1".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        let result = match ctx.check_budget(&self.budget).await {
            Ok(()) => ctx.tool_call(self.tool.as_ref(), json!({})).await.map(drop),
            over => over,
        };
        match result {
            Err(error) if self.hides => Err(RuntimeError::failed("it_failed", error.to_string())),
            _ => Ok(json!("as if nothing were")),
        }
    }
}

#[tokio::test]
async fn code_that_hides_why_its_run_waits_does_not_end_it() {
    for hides in [true, false] {
        for steps in [None, Some(0)] {
            let tool = Ledger::new("pay", Effect::Write, Finds::Nothing).acts(Acts::Fails);
            let careless = Careless { hides, tool, budget: Budget { steps, tokens: None } };
            let (store, run) = (memory(), new_run());
            for _ in 0..2 {
                let outcome = go_on(&store, &careless, run).await.unwrap();
                let RunOutcome::Waiting { reason } = outcome else { panic!("{outcome:?}") };
                assert_eq!(matches!(reason, WaitReason::Budget { .. }), steps.is_some());
            }
            assert_eq!(kinds(&store, run).await.last(), Some(&"suspended"));
        }
    }
}

#[tokio::test]
async fn code_that_hides_a_failure_of_the_store_does_not_end_its_run() {
    use relight_testkit::faults::{FailingStore, Fault, StoreCall};
    for hides in [true, false] {
        let tool = Ledger::new("pay", Effect::Write, Finds::Certainly);
        let careless = Careless { hides, tool: tool.clone(), budget: Budget::default() };
        let (inner, run) = (memory(), new_run());
        let error = StoreError::backend(std::io::Error::other("the server went away"));
        let store: Arc<dyn EventStore> =
            FailingStore::new(inner.clone(), Fault::Instead(StoreCall::Append, 2), error);
        let stopped = start(&store, &careless, run).await.unwrap_err();
        assert!(matches!(stopped, RuntimeError::Stopped { .. }), "{stopped:?}");
        assert!(stopped.to_string().contains("the server went away"), "{stopped}");
        let done = RunOutcome::Completed { output: json!("as if nothing were") };
        assert_eq!(go_on(&inner, &careless, run).await.unwrap(), done);
        assert_eq!(tool.keys().len(), 1);
    }
}

/// Ends its run by itself and then goes on.
struct Hasty;

#[async_trait]
impl Workflow for Hasty {
    fn agent_hash(&self) -> String {
        "hasty/1".to_owned()
    }

    async fn run(&self, ctx: &mut RunCtx, _: Value) -> Result<Value, RuntimeError> {
        ctx.complete("first").await?;
        Ok(json!("second"))
    }
}

#[tokio::test]
async fn a_run_that_its_code_has_ended_stays_as_it_ended() {
    let (store, run) = (memory(), new_run());
    let first = RunOutcome::Completed { output: json!("first") };
    assert_eq!(start(&store, &Hasty, run).await.unwrap(), first);
    assert_eq!(go_on(&store, &Hasty, run).await.unwrap(), first);
}

#[tokio::test]
async fn a_context_is_begun_once_and_used_only_between_its_beginning_and_its_end() {
    let (store, run) = (memory(), new_run());
    let clock = relight_runtime::system_clock();
    let mut ctx = RunCtx::with_hooks(store.clone(), run, vec![], clock, system_random()).unwrap();
    let model: &dyn Provider = &*Model::turns([says("hi")]);
    let early = ctx.model_call(model, &question("m")).await.unwrap_err();
    assert!(matches!(early, RuntimeError::Misuse { .. }), "{early:?}");
    ctx.begin("test", &json!("input")).await.unwrap();
    assert!(matches!(ctx.begin("test", &json!("input")).await, Err(RuntimeError::Misuse { .. })));
    ctx.model_call(model, &question("m")).await.unwrap();
    ctx.complete("done").await.unwrap();
    for late in [ctx.complete("done").await, ctx.fail("code", "message").await] {
        assert!(matches!(late, Err(RuntimeError::Ended { status: StatusKind::Completed, .. })), "{late:?}");
    }
    assert_eq!(ctx.state().status(), Some(RunStatus::Completed));
    assert_eq!(log(&store, run).await.len(), 4);
}

#[tokio::test]
async fn a_divergence_stops_its_context_by_name() {
    let (store, run) = (memory(), new_run());
    let model = Model::turns([says("hi")]);
    begun(&store, run).await.model_call(model.as_ref(), &question("m")).await.unwrap();
    let read = log(&store, run).await;
    let clock = relight_runtime::system_clock();
    let mut ctx = RunCtx::with_hooks(store.clone(), run, read, clock, system_random()).unwrap();
    assert!(matches!(ctx.begin("other", &json!("input")).await, Err(RuntimeError::Diverged(_))));
    let stopped = ctx.model_call(model.as_ref(), &question("m")).await.unwrap_err();
    assert!(matches!(stopped, RuntimeError::Misuse { .. } | RuntimeError::Stopped { .. }), "{stopped:?}");

    let mut ctx = begun(&store, run).await;
    assert!(matches!(ctx.complete("early").await, Err(RuntimeError::Diverged(_))));
    let stopped = ctx.model_call(model.as_ref(), &question("m")).await.unwrap_err();
    assert!(stopped.to_string().contains("diverged"), "{stopped}");
    assert_eq!((model.asked().len(), log(&store, run).await.len()), (1, 3));
}

#[tokio::test]
async fn a_log_that_does_not_belong_to_the_store_is_refused_at_the_first_append() {
    let (store, run) = (memory(), new_run());
    let model = Model::turns([says("hi")]);
    begun(&store, run).await.model_call(model.as_ref(), &question("m")).await.unwrap();
    let whole = log(&store, run).await;
    let shorter = memory();
    begun(&shorter, run).await;
    for (other, holds) in [(memory(), 0), (shorter, 1)] {
        let clock = relight_runtime::system_clock();
        let mut ctx = RunCtx::with_hooks(other.clone(), run, whole.clone(), clock, system_random()).unwrap();
        ctx.begin("test", &json!("input")).await.unwrap();
        ctx.model_call(model.as_ref(), &question("m")).await.unwrap();
        let refused = ctx.complete("done").await.unwrap_err();
        assert!(matches!(refused, RuntimeError::Log(_)), "{refused:?}");
        let text = format!("this context was given 3 events, but the store holds {holds}");
        assert!(refused.to_string().contains(&text), "{refused}");
        assert_eq!(log(&other, run).await.len(), holds);
    }
    let mut foreign = whole;
    foreign.remove(0);
    let clock = relight_runtime::system_clock();
    assert!(RunCtx::with_hooks(store, run, foreign, clock, system_random()).is_err());
}
