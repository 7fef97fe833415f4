//! What a log says about the course of its run, with all left out that crashes and repairs may change.

use std::collections::{BTreeMap, HashMap};

use relight_core::{Event, EventEnvelope, Lane, Role, Seq, request};
use serde_json::{Value, json};

/// The log as an undisturbed run leaves it: per lane, the same kinds and payloads, in order.
///
/// Two logs of one run are equal in this form if the run took the same course, whatever drives, crashes and resumes it
/// took: times, positions, and what drivers and operators noted are left out. References to other events are written as
/// lane and ordinal, and recorded requests in full, since a log holds them as differences between positions.
///
/// # Panics
///
/// Where the log is not whole: an event refers to one that is not in it.
///
/// # Examples
///
/// ```
/// use relight_store::{EventStore, RunId, StoreError};
/// use relight_testkit::undisturbed;
///
/// async fn check(calm: &dyn EventStore, crashed: &dyn EventStore, run: RunId) -> Result<(), StoreError> {
///     assert_eq!(undisturbed(&crashed.read_log(run).await?), undisturbed(&calm.read_log(run).await?));
///     Ok(())
/// }
/// ```
pub fn undisturbed(log: &[EventEnvelope]) -> BTreeMap<Lane, Vec<Value>> {
    let mut counts: HashMap<&Lane, usize> = HashMap::new();
    let mut names: HashMap<Seq, String> = HashMap::new();
    for envelope in log.iter().filter(|envelope| envelope.event.role() == Role::Asked) {
        let ordinal = counts.entry(&envelope.lane).or_default();
        names.insert(envelope.seq, format!("{} {ordinal}", envelope.lane));
        *ordinal += 1;
    }
    let name = |seq: &Seq| names.get(seq).unwrap_or_else(|| panic!("event {seq} is no call of this log"));

    let mut lanes: BTreeMap<Lane, Vec<Value>> = BTreeMap::new();
    for envelope in log.iter().filter(|envelope| envelope.event.role() != Role::Note) {
        let mut shown = serde_json::to_value(&envelope.event).expect("an event is JSON");
        let payload = &mut shown["payload"];
        if let Role::Settles(intent) = envelope.event.role() {
            payload["intent"] = json!(name(&intent));
        }
        match &envelope.event {
            Event::ModelCallRequested { request: Some(_), .. } => {
                let full =
                    request::expand(log, envelope.seq).expect("a log holds what its requests refer to");
                let full = full.expect("a request that is recorded can be shown in full");
                payload["request"] = json!({"rest": full.rest, "messages": full.messages});
            }
            Event::RunCancelled { unsettled, .. } => {
                payload["unsettled"] = unsettled.iter().map(|seq| json!(name(seq))).collect();
            }
            _ => {}
        }
        lanes.entry(envelope.lane.clone()).or_default().push(shown);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use relight_core::{Process, RunId, SCHEMA_VERSION, TokenUsage, request::RecordedRequest};

    use super::*;

    fn log(events: Vec<Event>) -> Vec<EventEnvelope> {
        let run_id: RunId = "0190f5d2-7c1a-7b6e-8f00-3c1d2e4f5a6b".parse().unwrap();
        let envelope = |(index, event)| EventEnvelope {
            run_id,
            seq: Seq::new(index as u64 + 1).unwrap(),
            schema_version: SCHEMA_VERSION,
            recorded_at: jiff::Timestamp::from_second(index as i64).unwrap(),
            lane: Lane::ROOT,
            event,
        };
        events.into_iter().enumerate().map(envelope).collect()
    }

    fn started() -> Event {
        Event::run_started("agent", json!("go"))
    }

    fn asked(text: &str) -> Event {
        let message = request::RecordedMessage::Message(json!(text));
        let request = RecordedRequest { messages: vec![message], ..RecordedRequest::default() };
        Event::model_call_requested(relight_core::Digest::of_value(&json!(text)), Some(request))
    }

    fn answered(intent: u64) -> Event {
        Event::model_call_completed(Seq::new(intent).unwrap(), json!({"content": []}), TokenUsage::default())
    }

    fn drive() -> Event {
        let process = Process {
            host: "host".into(),
            boot: "boot".into(),
            pid_namespace: "pid".into(),
            pid: 1,
            started: "1".into(),
        };
        Event::drive_started(1, process, "code")
    }

    #[test]
    fn drives_times_and_positions_do_not_count() {
        let calm = log(vec![started(), asked("a"), answered(2)]);
        let crashed = log(vec![started(), drive(), asked("a"), drive(), answered(3)]);
        assert_eq!(undisturbed(&calm), undisturbed(&crashed));
    }

    #[test]
    fn what_was_asked_and_answered_counts() {
        let calm = log(vec![started(), asked("a"), answered(2)]);
        for other in [
            vec![started(), asked("b"), answered(2)],
            vec![started(), asked("a")],
            vec![started(), asked("a"), answered(2), asked("a"), answered(4)],
        ] {
            assert_ne!(undisturbed(&calm), undisturbed(&log(other)));
        }
    }
}
