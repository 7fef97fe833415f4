//! Streams that break, lie or report an error, and bodies that are no answers.

use std::time::SystemTime;

use super::*;

#[test]
fn the_end_before_the_terminal_event_is_an_error_with_the_partial_answer() {
    // Azure and vLLM leave the terminal event out now and then; nobody can tell that from a cut.
    for last in [vec![], vec![done(0, message("Hel"))]] {
        let error = check(&[&[created(), text(0, "Hel")], &last[..]].concat()).unwrap_err();
        assert_eq!((error.kind, error.stage), (ErrorKind::Truncated, Stage::MidStream));
        assert_eq!(error.partial.unwrap().text(), "Hel");
    }
    let stream = framed(&[created(), text(0, "Hel")], "\n") + "data: [DONE]\n\n";
    assert_eq!(check_end(&stream, End::Clean).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn a_call_of_a_cut_answer_cannot_be_run_even_if_its_arguments_parse() {
    let error = check(&[created(), added(0, call("")), arguments(0, "{\"a\":1}")]).unwrap_err();
    assert_eq!(error.partial.unwrap().tool_uses().count(), 0);
}

#[test]
fn the_last_event_counts_without_its_blank_line_at_a_clean_end_only() {
    let stream = framed(&[created(), text(0, "Hi"), completed(json!([]))], "\n");
    for tail in ["\n\n", "\n"] {
        let cut = stream.strip_suffix(tail).unwrap();
        assert_eq!(check_end(cut, End::Clean).unwrap().text(), "Hi");
        assert_eq!(check_end(cut, End::Broken).unwrap_err().kind, ErrorKind::Truncated);
    }
}

#[test]
fn a_stream_without_any_event_is_an_error() {
    let error = check_end("", End::Clean).unwrap_err();
    assert_eq!((error.kind, error.partial), (ErrorKind::Truncated, None));
}

#[test]
fn an_error_event_of_any_shape_is_the_error_it_reports() {
    let shapes = [
        json!({ "type": "error", "code": "context_length_exceeded", "message": "m", "param": null, "sequence_number": 2 }),
        json!({ "type": "error", "sequence_number": 2,
                "error": { "type": "invalid_request_error", "code": "context_length_exceeded", "message": "m" } }),
        json!({ "error": { "message": "m", "code": "context_length_exceeded" } }),
        // As a WebSocket frame.
        json!({ "type": "error", "status": 400,
                "error": { "type": "invalid_request_error", "code": "context_length_exceeded", "message": "m" } }),
    ];
    for shape in shapes {
        for begun in [vec![], vec![created(), text(0, "Hel")]] {
            let error = check(&[begun, vec![shape.clone()]].concat()).unwrap_err();
            let told = (error.kind, error.code.as_deref(), error.message.as_str());
            assert_eq!(told, (ErrorKind::InvalidRequest, Some("context_length_exceeded"), "m"), "{shape}");
        }
    }
    let error =
        check(&[json!({ "type": "error", "status_code": 429, "error": { "message": "m" } })]).unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::RateLimited, Some(429)));
    let error = check_end("event: error\ndata: upstream died\n\n", End::Clean).unwrap_err();
    assert_eq!(error.message, "upstream died");
}

#[test]
fn a_failed_response_is_an_error_with_its_code_and_what_it_cost() {
    let failed = |error: Value| {
        let mut response = response("failed", json!([]));
        response["error"] = error;
        json!({ "type": "response.failed", "response": response })
    };
    let cases = [
        ("server_error", ErrorKind::Server),
        ("rate_limit_exceeded", ErrorKind::RateLimited),
        ("invalid_prompt", ErrorKind::InvalidRequest),
        ("insufficient_quota", ErrorKind::Billing),
        ("brand_new", ErrorKind::Server),
    ];
    for (code, kind) in cases {
        let end = failed(json!({ "code": code, "message": "m" }));
        let error = check(&[created(), text(0, "Hel"), end.clone()]).unwrap_err();
        assert_eq!((error.kind, error.code.as_deref(), error.message.as_str()), (kind, Some(code), "m"));
        let partial = error.partial.unwrap();
        assert_eq!((partial.text().as_str(), partial.usage), ("Hel", cost()));
        let whole = decode_body(end["response"].to_string().as_bytes(), "asked-model").unwrap_err();
        assert_eq!((whole.kind, whole.code.as_deref()), (kind, Some(code)));
    }
    let silent = check(&[created(), failed(json!(null))]).unwrap_err();
    assert_eq!(silent.kind, ErrorKind::Server);
    let mut cancelled = completed(json!([]));
    cancelled["response"]["status"] = json!("cancelled");
    assert_eq!(check(&[created(), cancelled]).unwrap_err().code.as_deref(), Some("cancelled"));
}

#[test]
fn an_error_that_is_null_is_none() {
    let mut end = completed(json!([]));
    end["error"] = json!(null);
    assert!(check(&[created(), end]).is_ok());
}

#[test]
fn events_that_are_no_json_objects_are_errors() {
    for data in ["not json", "[1]", "{\"type\":"] {
        let error = check_end(&format!("data: {data}\n\n"), End::Clean).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{data}");
    }
}

#[test]
fn a_body_that_is_no_answer_is_an_error_that_shows_it() {
    for body in ["", "hello", "[]", "{}", r#"{"output":7}"#] {
        assert_eq!(decode_body(body.as_bytes(), "m").unwrap_err().kind, ErrorKind::Protocol, "{body}");
    }
    let reported = decode_body(br#"{"error":{"code":"server_error","message":"m"}}"#, "m").unwrap_err();
    assert_eq!((reported.kind, reported.message.as_str()), (ErrorKind::Server, "m"));
    let refused = error_of_body(401, br#"{"error":{"message":"m"}}"#, SystemTime::UNIX_EPOCH);
    assert_eq!((refused.kind, refused.status), (ErrorKind::Authentication, Some(401)));
}
