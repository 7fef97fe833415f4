//! Idempotency keys: the same on every attempt of a call, different for every other call of any run.

use std::{collections::BTreeSet, sync::Arc};

use relight_core::{Effect, RunId};
use relight_runtime::{RuntimeError, Tool};
use serde_json::json;
use uuid::Uuid;

use crate::support::{Acts, Finds, Ledger, begun, memory, new_run};

#[tokio::test]
async fn a_key_is_the_same_on_every_attempt_and_in_every_version() {
    let (store, run) = (memory(), RunId::from_uuid(Uuid::from_u128(0x5eed)));
    let pay = Ledger::new("pay", Effect::Idempotent, Finds::Nothing).acts(Acts::Hangs);
    for _ in 0..3 {
        let mut ctx = begun(&store, run).await;
        let call = ctx.tool_call(pay.as_ref(), json!({}));
        tokio::select! {
            ended = call => panic!("it hangs, but ended: {ended:?}"),
            () = async { for _ in 0..20 { tokio::task::yield_now().await } } => {}
        }
    }
    // SHA-256 of `relight/idempotency-key/1`, the run, the lane `root` and the ordinal 0, each on its line. Another key
    // would let a target do again what it has done for an older version.
    let expected = "9ef875f18e55014d486ca9ef7e387917516779ccb55bffa8569756665edb7be0";
    assert_eq!(pay.keys(), [expected; 3]);
}

#[tokio::test]
async fn a_read_is_given_a_key_too_that_stays() {
    let (store, run) = (memory(), new_run());
    let read = Ledger::new("read", Effect::Read, Finds::Nothing).acts(Acts::Hangs);
    for _ in 0..2 {
        let mut ctx = begun(&store, run).await;
        let call = ctx.tool_call(read.as_ref(), json!({}));
        tokio::select! {
            ended = call => panic!("it hangs, but ended: {ended:?}"),
            () = async { for _ in 0..20 { tokio::task::yield_now().await } } => {}
        }
    }
    let keys = read.keys();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test]
async fn no_two_calls_of_any_runs_share_a_key() -> Result<(), RuntimeError> {
    let tools: Vec<Arc<Ledger>> =
        ["a", "b"].map(|name| Ledger::new(name, Effect::Write, Finds::Nothing)).into();
    for _ in 0..3 {
        let mut ctx = begun(&memory(), new_run()).await;
        for _ in 0..4 {
            for tool in &tools {
                let tool: &dyn Tool = tool.as_ref();
                ctx.tool_call(tool, json!({"same": "input"})).await?;
            }
        }
    }
    let keys: Vec<String> = tools.iter().flat_map(|tool| tool.keys()).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 3 * 4 * 2);
    Ok(())
}
