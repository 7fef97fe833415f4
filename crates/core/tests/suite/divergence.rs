//! Code that asks for something else than its log records: what the report names, and that nothing is lost by it.

use relight_core::{
    Divergence, Effect, Event, EventEnvelope, Lane, LaneStep, ToolOutcome,
    budget::Limit,
    replay::{Ask, Checked, Found, Replay, Settled, Step},
    request::{RecordedMessage, RecordedRequest},
};
use serde_json::{Map, Value, json};

use crate::support::{asks_model, asks_tool, hash, log, run, seq, started, usage};

/// A run that asked a model and a tool and then ended.
fn ended() -> Vec<EventEnvelope> {
    log([
        started(),
        asks_model("a"),
        Event::model_call_completed(seq(2), json!("answer"), usage(1, 1)),
        asks_tool("search", json!({"query": "x", "limit": 3}), Effect::Read),
        Event::tool_call_completed(seq(4), ToolOutcome::Returned(json!("found"))),
        Event::run_completed(json!({"result": 1})),
    ])
}

fn replay(log: Vec<EventEnvelope>) -> Replay {
    let replay = Replay::new(run(), log).unwrap();
    replay.begin("agent", &json!("in")).unwrap();
    replay
}

fn ask_model<'a>(replay: &'a mut Replay, text: &str) -> Result<Found<'a>, Box<Divergence>> {
    let request = || json!({"messages": []});
    replay.ask(&Lane::ROOT, Ask::ModelCall { request_hash: hash(text), request: &request })
}

fn ask_tool<'a>(replay: &'a mut Replay, tool: &str, input: &Value) -> Result<Found<'a>, Box<Divergence>> {
    replay.ask(&Lane::ROOT, Ask::ToolCall { tool, input })
}

/// What a report should say: `at` is `event, lane, call`.
struct Expected<'a> {
    at: (u64, &'a str, Option<u64>),
    recorded: Value,
    asked: Value,
    path: &'a str,
    text: &'a str,
}

#[track_caller]
fn check(divergence: &Divergence, expected: Expected<'_>) {
    assert_eq!(divergence.run, run());
    let (number, lane, ordinal) = expected.at;
    assert_eq!((divergence.seq, divergence.lane.to_string()), (seq(number), lane.to_owned()));
    assert_eq!(divergence.ordinal, ordinal);
    assert_eq!(divergence.recorded, expected.recorded);
    assert_eq!(divergence.asked, expected.asked);
    assert_eq!(divergence.difference().unwrap().path, expected.path);
    let call = ordinal.map(|ordinal| format!(", call {ordinal}")).unwrap_or_default();
    let text = format!(
        "run {} diverged at event {number} (lane {lane}{call}): {}; nothing was changed: resume it with the code that \
         wrote it, or start a new run",
        run(),
        expected.text
    );
    assert_eq!(divergence.to_string(), text);
}

#[test]
fn a_call_of_another_kind_is_told_by_its_kind() {
    let mut replay = replay(ended());
    let divergence = ask_tool(&mut replay, "search", &json!(1)).unwrap_err();
    check(
        &divergence,
        Expected {
            at: (2, "root", Some(0)),
            recorded: json!({"kind": "model_call_requested", "request_hash": hash("a")}),
            asked: json!({"kind": "tool_call_requested", "tool": "search", "input": 1}),
            path: "/kind",
            text: "the log records model_call_requested, the code asks for tool_call_requested; at /kind the log has \
                   \"model_call_requested\", the code \"tool_call_requested\"",
        },
    );
}

#[test]
fn another_tool_is_told_by_its_name() {
    let mut replay = replay(ended());
    ask_model(&mut replay, "a").unwrap();
    let input = json!({"query": "x", "limit": 3});
    let divergence = ask_tool(&mut replay, "find", &input).unwrap_err();
    check(
        &divergence,
        Expected {
            at: (4, "root", Some(1)),
            recorded: json!({"kind": "tool_call_requested", "tool": "search", "input": input}),
            asked: json!({"kind": "tool_call_requested", "tool": "find", "input": input}),
            path: "/tool",
            text: "the log records tool_call_requested, the code asks for tool_call_requested; at /tool the log has \
                   \"search\", the code \"find\"",
        },
    );
}

#[test]
fn another_input_is_told_by_the_path_that_differs() {
    let mut replay = replay(ended());
    ask_model(&mut replay, "a").unwrap();
    let divergence = ask_tool(&mut replay, "search", &json!({"query": "x"})).unwrap_err();
    check(
        &divergence,
        Expected {
            at: (4, "root", Some(1)),
            recorded: json!({"kind": "tool_call_requested", "tool": "search", "input": {"query": "x", "limit": 3}}),
            asked: json!({"kind": "tool_call_requested", "tool": "search", "input": {"query": "x"}}),
            path: "/input/limit",
            text: "the log records tool_call_requested, the code asks for tool_call_requested; at /input/limit the log \
                   has 3, the code nothing",
        },
    );
}

#[test]
fn a_request_recorded_by_its_hash_is_told_by_both_hashes() {
    let mut replay = replay(ended());
    let divergence = ask_model(&mut replay, "b").unwrap_err();
    let (a, b) = (hash("a"), hash("b"));
    check(
        &divergence,
        Expected {
            at: (2, "root", Some(0)),
            recorded: json!({"kind": "model_call_requested", "request_hash": a}),
            asked: json!({"kind": "model_call_requested", "request_hash": b}),
            path: "/request_hash",
            text: &format!(
                "the log records model_call_requested, the code asks for model_call_requested; at /request_hash the \
                 log has \"{a}\", the code \"{b}\""
            ),
        },
    );
}

#[test]
fn a_request_recorded_in_full_is_told_by_the_words_that_differ() {
    let message = |text: &str| json!({"role": "user", "content": [{"text": text}]});
    let recorded = RecordedRequest {
        messages: vec![
            RecordedMessage::Message(message("first")),
            RecordedMessage::Message(message("second")),
        ],
        set: Map::from_iter([("model".to_owned(), json!("m"))]),
        ..RecordedRequest::default()
    };
    let mut replay = replay(log([started(), Event::model_call_requested(hash("a"), Some(recorded))]));
    let other = json!({"model": "m", "messages": [message("first"), message("another")]});
    let request = || other.clone();
    let ask = Ask::ModelCall { request_hash: hash("b"), request: &request };
    let divergence = replay.ask(&Lane::ROOT, ask).unwrap_err();
    let full = json!({"model": "m", "messages": [message("first"), message("second")]});
    check(
        &divergence,
        Expected {
            at: (2, "root", Some(0)),
            recorded: json!({"kind": "model_call_requested", "request": full}),
            asked: json!({"kind": "model_call_requested", "request": other}),
            path: "/request/messages/1/content/0/text",
            text: "the log records model_call_requested, the code asks for model_call_requested; at \
                   /request/messages/1/content/0/text the log has \"second\", the code \"another\"",
        },
    );
}

#[test]
fn an_end_before_all_recorded_calls_is_refused() {
    let mut replay = replay(ended());
    ask_model(&mut replay, "a").unwrap();
    let divergence = replay.finish(&Event::run_completed(json!({"result": 1}))).unwrap_err();
    check(
        &divergence,
        Expected {
            at: (4, "root", None),
            recorded: json!({"kind": "tool_call_requested", "tool": "search", "input": {"query": "x", "limit": 3}}),
            asked: json!({"kind": "run_completed", "output": {"result": 1}}),
            path: "/kind",
            text: "the log records tool_call_requested, the code asks for run_completed; at /kind the log has \
                   \"tool_call_requested\", the code \"run_completed\"",
        },
    );
}

#[test]
fn a_call_behind_the_recorded_end_is_refused() {
    let mut replay = replay(ended());
    ask_model(&mut replay, "a").unwrap();
    ask_tool(&mut replay, "search", &json!({"query": "x", "limit": 3})).unwrap();
    // No check is made past the end either: it could only record something there.
    assert_eq!(replay.check_budget(&Lane::ROOT), Checked::Passed);
    let divergence = ask_model(&mut replay, "c").unwrap_err();
    check(
        &divergence,
        Expected {
            at: (6, "root", None),
            recorded: json!({"kind": "run_completed", "output": {"result": 1}}),
            asked: json!({"kind": "model_call_requested", "request_hash": hash("c")}),
            path: "/kind",
            text: "the log records run_completed, the code asks for model_call_requested; at /kind the log has \
                   \"run_completed\", the code \"model_call_requested\"",
        },
    );
}

#[test]
fn another_agent_or_another_input_at_the_start_is_refused() {
    let replay = Replay::new(run(), ended()).unwrap();
    let side = |agent: &str, input: &str| json!({"kind": "run_started", "agent_hash": agent, "input": input});
    check(
        &replay.begin("other", &json!("in")).unwrap_err(),
        Expected {
            at: (1, "root", None),
            recorded: side("agent", "in"),
            asked: side("other", "in"),
            path: "/agent_hash",
            text: "the log records run_started, the code asks for run_started; at /agent_hash the log has \"agent\", \
                   the code \"other\"",
        },
    );
    check(
        &replay.begin("agent", &json!("out")).unwrap_err(),
        Expected {
            at: (1, "root", None),
            recorded: side("agent", "in"),
            asked: side("agent", "out"),
            path: "/input",
            text: "the log records run_started, the code asks for run_started; at /input the log has \"in\", the code \
                   \"out\"",
        },
    );
}

#[test]
fn another_end_is_refused() {
    let mut replay = replay(ended());
    ask_model(&mut replay, "a").unwrap();
    ask_tool(&mut replay, "search", &json!({"query": "x", "limit": 3})).unwrap();
    check(
        &replay.finish(&Event::run_completed(json!({"result": 2}))).unwrap_err(),
        Expected {
            at: (6, "root", None),
            recorded: json!({"kind": "run_completed", "output": {"result": 1}}),
            asked: json!({"kind": "run_completed", "output": {"result": 2}}),
            path: "/output/result",
            text: "the log records run_completed, the code asks for run_completed; at /output/result the log has 1, \
                   the code 2",
        },
    );
    check(
        &replay.finish(&Event::run_failed("gave_up", "no")).unwrap_err(),
        Expected {
            at: (6, "root", None),
            recorded: json!({"kind": "run_completed", "output": {"result": 1}}),
            asked: json!({"kind": "run_failed", "code": "gave_up", "message": "no"}),
            path: "/kind",
            text: "the log records run_completed, the code asks for run_failed; at /kind the log has \
                   \"run_completed\", the code \"run_failed\"",
        },
    );
}

#[test]
fn a_call_in_another_lane_is_refused_while_recorded_ones_are_left() {
    let mut replay = replay(ended());
    let lane = Lane::ROOT.branch(LaneStep { ordinal: 0, branch: 1 });
    let divergence = replay.ask(&lane, Ask::ToolCall { tool: "search", input: &json!(1) }).unwrap_err();
    check(
        &divergence,
        Expected {
            at: (2, "root", None),
            recorded: json!({"kind": "model_call_requested", "request_hash": hash("a")}),
            asked: json!({"kind": "tool_call_requested", "tool": "search", "input": 1}),
            path: "/kind",
            text: "the log records model_call_requested, the code asks for tool_call_requested; at /kind the log has \
                   \"model_call_requested\", the code \"tool_call_requested\"",
        },
    );
    // Nor does a budget check there find anything but room.
    assert_eq!(replay.check_budget(&lane), Checked::Passed);
}

#[test]
fn a_call_is_refused_where_a_budget_check_is_recorded() {
    let mut replay = replay(log([started(), Event::budget_exceeded(Limit::Steps, 0, 0)]));
    let divergence = ask_model(&mut replay, "a").unwrap_err();
    check(
        &divergence,
        Expected {
            at: (2, "root", Some(0)),
            recorded: json!({"kind": "budget_exceeded", "limit": "steps"}),
            asked: json!({"kind": "model_call_requested", "request_hash": hash("a")}),
            path: "/kind",
            text: "the log records budget_exceeded, the code asks for model_call_requested; at /kind the log has \
                   \"budget_exceeded\", the code \"model_call_requested\"",
        },
    );
}

#[test]
fn the_machine_stays_where_it_was_and_the_code_that_wrote_the_log_goes_on() {
    let mut replay = replay(ended());
    for _ in 0..2 {
        ask_model(&mut replay, "b").unwrap_err();
        ask_tool(&mut replay, "search", &json!(1)).unwrap_err();
        replay.finish(&Event::run_completed(json!(1))).unwrap_err();
        assert!(!replay.is_live());
    }
    let found = ask_model(&mut replay, "a").unwrap();
    let (answer, cost) = (json!("answer"), usage(1, 1));
    let answered = Settled::Answered { response: &answer, usage: cost };
    assert_eq!(found, Found { ordinal: 0, step: Step::Recorded(answered) });
    let found = ask_tool(&mut replay, "search", &json!({"limit": 3.0, "query": "x"})).unwrap();
    let outcome = ToolOutcome::Returned(json!("found"));
    assert_eq!(found, Found { ordinal: 1, step: Step::Recorded(Settled::Outcome(&outcome)) });
    assert_eq!(replay.finish(&Event::run_completed(json!({"result": 1.0}))), Ok(true));
}

#[test]
fn a_long_value_is_cut_in_the_text_and_whole_in_the_report() {
    let long = "é".repeat(500);
    let mut replay = replay(log([started(), asks_tool("write", json!(long), Effect::Write)]));
    let divergence = ask_tool(&mut replay, "write", &json!("short")).unwrap_err();
    let shown = format!("the log has \"{}…, the code \"short\";", "é".repeat(119));
    assert!(divergence.to_string().contains(&shown), "{divergence}");
    assert_eq!(divergence.difference().unwrap().left, Some(json!(long)));
}

#[test]
fn long_values_that_part_late_are_shown_from_there() {
    let text = |day: &str| json!(format!("{}. Today is {day}. {}", "é".repeat(500), "x".repeat(500)));
    let mut replay = replay(log([started(), asks_tool("write", text("Monday"), Effect::Write)]));
    let divergence = ask_tool(&mut replay, "write", &text("Tuesday")).unwrap_err();
    let shown = |day: &str, width| format!("…ééééééééé. Today is {day}. {}…", "x".repeat(width));
    let shown = format!("the log has {}, the code {};", shown("Monday", 92), shown("Tuesday", 91));
    assert!(divergence.to_string().contains(&shown), "{divergence}");
}
