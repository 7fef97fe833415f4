//! Streams that break, lie or report an error, and bodies that are no answers.

use super::*;

#[test]
fn the_end_before_the_terminal_event_is_an_error_with_the_partial_answer() {
    let begun = [start(), open(0, json!({ "type": "text", "text": "" })), text(0, "Hel")];
    let error = check(&begun).unwrap_err();
    assert_eq!((error.kind, error.stage), (ErrorKind::Truncated, Stage::MidStream));
    assert!(error.to_string().starts_with("Stream error"), "{error}");
    assert_eq!(error.partial.unwrap().text(), "Hel");

    // A stop reason does not make an open block whole.
    let open_block = [&begun[..], &[ended("end_turn")]].concat();
    assert_eq!(check(&open_block).unwrap_err().kind, ErrorKind::Truncated);
    // All blocks closed, but no reason why the answer stopped.
    let no_reason = [&begun[..], &[close(0)]].concat();
    assert_eq!(check(&no_reason).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn a_call_in_a_partial_answer_cannot_be_run_even_if_its_arguments_parse() {
    for part in ["", "{\"a\":1}"] {
        let error = check(&[start(), open(0, tool()), arguments(0, part)]).unwrap_err();
        let partial = error.partial.unwrap();
        assert_eq!(partial.tool_uses().count(), 0, "{partial:?}");
    }
}

#[test]
fn a_stream_without_any_event_is_an_error() {
    for stream in ["", ": comment\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"] {
        let error = check_end(stream, End::Clean).unwrap_err();
        assert_eq!((error.kind, error.partial), (ErrorKind::Truncated, None));
    }
}

#[test]
fn a_clean_end_after_a_stop_reason_with_all_blocks_closed_is_complete() {
    let events = [start(), open(0, json!({ "type": "text", "text": "Hi" })), close(0), ended("end_turn")];
    assert_eq!(check(&events).unwrap(), answer("Hi", StopReason::EndTurn));
}

#[test]
fn the_last_event_counts_without_its_blank_line_at_a_clean_end_only() {
    let events = [start(), open(0, json!({ "type": "text", "text": "Hi" })), close(0), ended("end_turn")];
    let stream = framed(&events, "\n");
    for tail in ["\n\n", "\n"] {
        let cut = stream.strip_suffix(tail).unwrap();
        assert_eq!(check_end(cut, End::Clean).unwrap(), answer("Hi", StopReason::EndTurn));
        assert_eq!(check_end(cut, End::Broken).unwrap_err().kind, ErrorKind::Truncated);
    }
}

#[test]
fn done_markers_and_padding_are_passed_over() {
    let mut stream = framed(&[start(), open(0, json!({ "type": "text", "text": "Hi" })), close(0)], "\n");
    // The real service pads with blanks before the last brace.
    stream.push_str("data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}          }\n\n");
    stream.push_str("data: [DONE]\n\n");
    assert_eq!(check_end(&stream, End::Clean).unwrap(), answer("Hi", StopReason::EndTurn));
}

#[test]
fn an_event_before_the_start_is_an_error() {
    for event in [text(0, "x"), ended("end_turn"), stop(), open(0, tool())] {
        let error = check(&[event]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn events_that_fit_no_open_block_are_errors() {
    let block = json!({ "type": "text", "text": "" });
    let wrong = [
        vec![start(), start()],
        vec![start(), text(0, "x")],
        vec![start(), open(0, block.clone()), close(0), text(0, "x")],
        vec![start(), open(0, block.clone()), open(0, block.clone())],
        vec![start(), open(0, block.clone()), arguments(0, "{}")],
        vec![start(), open(0, tool()), text(0, "x")],
        vec![start(), close(0)],
    ];
    for events in wrong {
        assert_eq!(check(&events).unwrap_err().kind, ErrorKind::Protocol, "{events:?}");
    }
}

#[test]
fn events_that_lack_what_they_promise_are_errors() {
    let wrong = [
        json!({ "type": "message_start" }),
        json!({ "type": "content_block_start", "content_block": {} }),
        json!({ "type": "content_block_start", "index": 0 }),
        json!({ "type": "content_block_delta", "index": 0 }),
        json!({ "type": "content_block_delta", "index": -1, "delta": { "type": "text_delta", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": 7 } }),
        json!({ "type": "content_block_stop" }),
    ];
    for event in wrong {
        let data = event.to_string();
        let decoded = decode_event(&sse::Event { name: "".into(), data: data.as_str().into() });
        assert_eq!(decoded.unwrap_err().kind, ErrorKind::Protocol, "{data}");
    }
    for data in ["not json", "[1]", "{\"type\":"] {
        let decoded = decode_event(&sse::Event { name: "".into(), data: data.into() });
        assert_eq!(decoded.unwrap_err().kind, ErrorKind::Protocol, "{data}");
    }
}

#[test]
fn an_error_event_of_any_shape_is_the_error_it_reports() {
    let shapes = [
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "m" } }),
        json!({ "type": "error", "sequence_number": 2, "error": { "type": "overloaded_error", "message": "m" } }),
        json!({ "type": "error", "code": "overloaded_error", "message": "m", "param": null }),
        json!({ "error": { "type": "overloaded_error", "message": "m" } }),
        json!({ "error": { "code": 529, "message": "m" } }),
    ];
    for shape in shapes {
        for begun in [vec![], vec![start()]] {
            let error = check(&[begun, vec![shape.clone()]].concat()).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "m"), "{shape}");
        }
    }
}

#[test]
fn the_code_of_an_error_is_its_most_telling_name() {
    let nested = json!({ "type": "error", "sequence_number": 2,
        "error": { "type": "invalid_request_error", "code": "context_length_exceeded", "message": "m" } });
    let error = check(&[nested]).unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ErrorKind::InvalidRequest, Some("context_length_exceeded"))
    );
    let gateway = json!({ "error": { "message": "m", "code": "bad_request" } });
    let error = check(&[gateway]).unwrap_err();
    assert_eq!((error.code.as_deref(), error.message.as_str()), (Some("bad_request"), "m"));
}

#[test]
fn an_error_in_an_event_of_an_unknown_kind_is_one() {
    let event = json!({ "type": "exception", "error": { "type": "overloaded_error", "message": "m" } });
    let error = check(&[start(), event]).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "m"));
}

#[test]
fn each_type_and_each_status_of_the_api_has_its_kind() {
    let kinds = [
        (400, "invalid_request_error", ErrorKind::InvalidRequest),
        (401, "authentication_error", ErrorKind::Authentication),
        (402, "billing_error", ErrorKind::Billing),
        (403, "permission_error", ErrorKind::Authentication),
        (404, "not_found_error", ErrorKind::InvalidRequest),
        (409, "conflict_error", ErrorKind::InvalidRequest),
        (413, "request_too_large", ErrorKind::InvalidRequest),
        (429, "rate_limit_error", ErrorKind::RateLimited),
        (500, "api_error", ErrorKind::Server),
        (504, "timeout_error", ErrorKind::Server),
        (529, "overloaded_error", ErrorKind::Overloaded),
    ];
    for (status, name, kind) in kinds {
        let report = json!({ "type": "error", "error": { "type": name, "message": "m" } });
        assert_eq!(check(&[start(), report.clone()]).unwrap_err().kind, kind, "{name} in a stream");
        let error = error_of_body(status, report.to_string().as_bytes());
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(name)));
        // A proxy in between speaks HTML; the status is still true.
        assert_eq!(error_of_body(status, b"<html>").kind, kind, "{status}");
    }
    let new = json!({ "type": "error", "error": { "type": "brand_new_error", "message": "m" } });
    assert_eq!(check(&[start(), new]).unwrap_err().kind, ErrorKind::Server);
}

#[test]
fn an_error_event_that_is_only_text_is_shown() {
    let error = check_end("event: error\ndata: upstream died\n\n", End::Clean).unwrap_err();
    assert_eq!(error.message, "upstream died");
    let error = check(&[json!({ "error": "upstream died" })]).unwrap_err();
    assert_eq!(error.message, "upstream died");
}

#[test]
fn an_error_that_is_null_is_none() {
    let event = json!({ "error": null, "type": "message_stop" });
    assert!(decode_event(&sse::Event { name: "".into(), data: event.to_string().into() }).is_ok());
    let body = json!({ "id": "m", "model": "m", "content": [], "stop_reason": "end_turn", "error": null });
    assert!(decode_body(body.to_string().as_bytes()).is_ok());
}

#[test]
fn refused_bodies_of_any_shape_are_the_error_they_report() {
    let spec = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "m" }, "request_id": "req_1" });
    let error = error_of_body(429, spec.to_string().as_bytes());
    assert_eq!((error.kind, error.status, error.message.as_str()), (ErrorKind::RateLimited, Some(429), "m"));
    assert_eq!(error.request_id.as_deref(), Some("req_1"));

    let html = error_of_body(502, b"<html>Bad Gateway</html>");
    assert_eq!((html.kind, html.message.as_str()), (ErrorKind::Server, "<html>Bad Gateway</html>"));
    assert_eq!(error_of_body(500, b"").to_string(), "the server failed (status 500)");
    assert_eq!(error_of_body(500, b"{}").to_string(), "the server failed (status 500)");
    assert!(error_of_body(500, "é".repeat(5000).as_bytes()).message.len() < 1000);
}

#[test]
fn a_spending_limit_is_told_apart_from_a_rate_limit() {
    let body = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "m",
                       "details": { "error_code": "enforced_spend_limit_reached" } } });
    let error = error_of_body(429, body.to_string().as_bytes());
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ErrorKind::Billing, Some("enforced_spend_limit_reached"))
    );
}

#[test]
fn a_body_that_is_no_answer_is_an_error_that_shows_it() {
    for body in ["", "hello", "[]", "{}", r#"{"content":7}"#, r#"{"content":[7]}"#] {
        assert_eq!(decode_body(body.as_bytes()).unwrap_err().kind, ErrorKind::Protocol, "{body}");
    }
    let reported =
        decode_body(br#"{"type":"error","error":{"type":"api_error","message":"m"}}"#).unwrap_err();
    assert_eq!((reported.kind, reported.message.as_str()), (ErrorKind::Server, "m"));
}
