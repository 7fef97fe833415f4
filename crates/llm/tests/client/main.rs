//! The client against real sockets: what it sends, what it makes of answers, and when it tries again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod hostile;
mod secrets;
mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use relight_llm::{
    Client, Config, ErrorKind, LlmError, MessageStream, Provider, Stage, StopReason, StreamEvent, Transport,
};
use serde_json::json;
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

#[tokio::test]
async fn a_body_and_a_stream_of_any_content_type_are_the_same_answer() {
    for content_type in ["text/event-stream", "application/json", "text/html; charset=latin1"] {
        let headers = [("content-type", content_type)];
        let server = Server::start([say(200, &headers, body()), say(200, &headers, events(&whole()))]).await;
        let client = client(&server);
        let sent = client.send(&request()).await.unwrap();
        let streamed = client.stream(&request()).await.unwrap().into_reply().await.unwrap();
        assert_eq!(sent.response, streamed.response);
        assert_eq!(sent.response.text(), "Hello");
        assert_eq!(sent.response.stop_reason, StopReason::EndTurn);
        assert_eq!((sent.response.usage.input_tokens, sent.response.usage.output_tokens), (10, 5));
    }
}

#[tokio::test]
async fn a_call_is_one_post_with_the_headers_of_the_api_and_no_key_unless_given() {
    let server = Server::start([say(200, &[], body()), say(200, &[], events(&whole()))]).await;
    client(&server).send(&request()).await.unwrap();
    let config = config(&server)
        .with_api_key("sk-1")
        .with_beta("beta-a")
        .with_beta("beta-b")
        .with_header("x-trace", "t");
    Client::new(config).unwrap().stream(&request()).await.unwrap().into_reply().await.unwrap();

    let [plain, keyed] = &server.requests()[..] else { panic!("two requests") };
    for request in [plain, keyed] {
        assert!(request.head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(request.header("anthropic-version"), ["2023-06-01"]);
        assert_eq!(request.header("content-type"), ["application/json"]);
        assert_eq!(request.header("accept-encoding"), ["identity"]);
        assert_eq!(request.body["model"], "some-model");
        assert_eq!(
            request.body["messages"],
            json!([{ "role": "user", "content": [{ "type": "text", "text": "Hi" }] }])
        );
    }
    assert_eq!(plain.header("x-api-key").len() + plain.header("authorization").len(), 0);
    assert_eq!(plain.body.get("stream"), None);
    assert_eq!(keyed.header("x-api-key"), ["sk-1"]);
    assert_eq!(keyed.header("anthropic-beta"), ["beta-a,beta-b"]);
    assert_eq!(keyed.header("x-trace"), ["t"]);
    assert_eq!(keyed.header("accept"), ["text/event-stream"]);
    assert_eq!(keyed.body["stream"], true);
}

#[tokio::test]
async fn how_an_answer_came_stands_beside_it() {
    let headers = [("request-id", "req_1"), ("anthropic-ratelimit-requests-remaining", "9")];
    let server = Server::start([say(200, &headers, events(&whole()))]).await;
    let stream = client(&server).stream(&request()).await.unwrap();
    let delivery = stream.delivery();
    assert_eq!(delivery.transport, Transport::Http);
    assert_eq!(delivery.request_id.as_deref(), Some("req_1"));
    assert_eq!(delivery.rate_limits, [("anthropic-ratelimit-requests-remaining".to_owned(), "9".to_owned())]);
    assert!(delivery.first_event.is_some());
}

#[tokio::test]
async fn a_failure_before_the_first_event_is_tried_again() {
    let soon = [("retry-after-ms", "1")];
    for first in [
        say(529, &soon, overloaded()),
        say(500, &soon, ""),
        say(400, &[soon[0], ("x-should-retry", "true")], ""),
    ] {
        let server = Server::start([first, say(200, &[], events(&whole()))]).await;
        let client = Client::new(config(&server).with_max_retries(1)).unwrap();
        let reply = client.stream(&request()).await.unwrap().into_reply().await.unwrap();
        assert_eq!((reply.response.text().as_str(), reply.delivery.retries), ("Hello", 1));
        let [first, second] = &server.requests()[..] else { panic!("two requests") };
        assert_eq!(first.body, second.body);
    }
}

#[tokio::test]
async fn a_whole_answer_is_tried_again_too() {
    let server = Server::start([say(503, &[("retry-after", "0.001")], ""), say(200, &[], body())]).await;
    let client = Client::new(config(&server).with_max_retries(1)).unwrap();
    assert_eq!(client.send(&request()).await.unwrap().delivery.retries, 1);
}

#[tokio::test]
async fn what_would_fail_again_is_not_tried_again() {
    let refusals = [
        say(400, &[], json!({ "error": { "type": "invalid_request_error", "message": "no" } })),
        say(401, &[], ""),
        say(429, &[("x-should-retry", "false")], ""),
        say(429, &[("retry-after", "61")], ""),
        say(301, &[("location", "http://127.0.0.1:1/v1/messages")], ""),
        say(200, &[], "neither events nor an answer"),
        say(200, &[], ""),
    ];
    for refusal in refusals {
        let server = Server::start([refusal]).await;
        let client = Client::new(config(&server).with_max_retries(5)).unwrap();
        client.stream(&request()).await.unwrap_err();
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_error_names_the_status_the_code_the_request_and_the_wait() {
    let refusal = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "slow down" } });
    let headers = [("request-id", "req_1"), ("retry-after", "7")];
    let server = Server::start([say(429, &headers, refusal)]).await;
    let error = client(&server).send(&request()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.stage, error.status),
        (ErrorKind::RateLimited, Stage::BeforeAnswer, Some(429))
    );
    assert_eq!(error.code.as_deref(), Some("rate_limit_error"));
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.to_string().contains("slow down"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_refused_and_the_key_goes_nowhere_else() {
    let elsewhere = Server::start([say(200, &[], body())]).await;
    let location = format!("{}/v1/messages", elsewhere.url);
    for status in [301, 302, 307, 308] {
        let server = Server::start([say(status, &[("location", &location)], "")]).await;
        let client = Client::new(config(&server).with_api_key("sk-1")).unwrap();
        let error = client.send(&request()).await.unwrap_err();
        assert!(error.to_string().contains("redirect"), "{error}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_refused_connection_names_the_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(Config::new().with_base_url(&url).with_max_retries(0)).unwrap();
    for error in [client.send(&request()).await.unwrap_err(), client.stream(&request()).await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::Connection);
        assert!(
            error.to_string().contains(&url) && error.to_string().contains("check the base URL"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_error_event_in_mid_stream_is_handed_out_and_never_retried() {
    let broken = events(&[begun(), vec![overloaded()]].concat());
    let server =
        Server::start([say(200, &[("request-id", "req_1")], broken), say(200, &[], events(&whole()))]).await;
    let client = Client::new(config(&server).with_max_retries(5)).unwrap();
    let (text, error) = read(client.stream(&request()).await.unwrap()).await;
    let error = error.unwrap();
    assert_eq!(text, "Hel");
    assert_eq!((error.kind, error.stage), (ErrorKind::Overloaded, Stage::MidStream));
    assert!(error.to_string().starts_with("Stream error"), "{error}");
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert_eq!(error.partial.unwrap().text(), "Hel");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_error_event_that_comes_first_is_a_refusal() {
    let server = Server::start([say(200, &[], events(&[overloaded()]))]).await;
    let error = client(&server).stream(&request()).await.unwrap_err();
    assert_eq!((error.kind, error.stage), (ErrorKind::Overloaded, Stage::BeforeAnswer));

    let server =
        Server::start([say(200, &[], events(&[overloaded()])), say(200, &[], events(&whole()))]).await;
    let client = Client::new(config(&server).with_max_retries(1)).unwrap();
    assert_eq!(client.stream(&request()).await.unwrap().delivery().retries, 1);
}

#[tokio::test]
async fn a_stream_that_is_cut_is_an_error_with_the_partial_answer() {
    let begun = events(&begun());
    let clean_end = answer(200, &[], &begun);
    let chunk = format!("{:x}\r\n{begun}\r\n", begun.len());
    let broken_chunks = answer(200, &[("transfer-encoding", "chunked")], &chunk);
    let short_body = answer(200, &[("content-length", "100000")], &begun);
    let cases = [
        (clean_end, ErrorKind::Truncated),
        (broken_chunks, ErrorKind::Connection),
        (short_body, ErrorKind::Connection),
    ];
    for (said, kind) in cases {
        let server = Server::start([Script::Say(said)]).await;
        let client = Client::new(config(&server).with_max_retries(5)).unwrap();
        let stream = client.stream(&request()).await.unwrap();
        let (text, error) = read(stream).await;
        let error = error.unwrap();
        assert_eq!((text.as_str(), error.kind, error.stage), ("Hel", kind, Stage::MidStream));
        assert_eq!(error.partial.as_ref().unwrap().text(), "Hel");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_last_event_counts_only_if_the_stream_ended_cleanly() {
    let whole = events(&whole());
    // The terminal event is gone, and the one before lacks its blank line.
    let unterminated = whole.split("event: message_stop").next().unwrap().trim_end();
    let server = Server::start([say(200, &[], unterminated)]).await;
    let (text, error) = read(client(&server).stream(&request()).await.unwrap()).await;
    assert_eq!((text.as_str(), error), ("Hello", None));

    let server = Server::start([say(200, &[("content-length", "100000")], unterminated)]).await;
    let (_, error) = read(client(&server).stream(&request()).await.unwrap()).await;
    assert_eq!(error.unwrap().kind, ErrorKind::Connection);
}

#[tokio::test]
async fn an_answer_is_complete_though_the_server_keeps_the_connection_open() {
    let server = Server::start([Script::SayAndWait(answer(200, &[], &events(&whole())))]).await;
    let (text, error) = read(client(&server).stream(&request()).await.unwrap()).await;
    assert_eq!((text.as_str(), error), ("Hello", None));
}

#[tokio::test]
async fn a_server_that_does_not_begin_to_answer_meets_the_first_limit_and_no_second_request() {
    let head = answer(200, &[], "");
    let comments = answer(200, &[], ": wait\n\nevent: soon\n\n");
    for said in [String::new(), head, comments] {
        let server = Server::start([Script::SayAndWait(said)]).await;
        let config = config(&server).with_max_retries(5).with_first_event_timeout(Duration::from_millis(50));
        let error = Client::new(config).unwrap().stream(&request()).await.unwrap_err();
        assert_eq!((error.kind, error.stage), (ErrorKind::Timeout, Stage::BeforeAnswer));
        assert!(error.to_string().contains("first_event_timeout"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_meets_the_silence_limit() {
    let server = Server::start([Script::SayAndWait(answer(200, &[], &events(&begun())))]).await;
    let config = config(&server).with_silence_timeout(Duration::from_millis(50));
    let (text, error) = read(Client::new(config).unwrap().stream(&request()).await.unwrap()).await;
    let error = error.unwrap();
    assert_eq!((text.as_str(), error.kind), ("Hel", ErrorKind::Timeout));
    assert!(error.to_string().contains("silence_timeout"), "{error}");
    assert_eq!(error.partial.unwrap().text(), "Hel");

    let server = Server::start([Script::SayAndWait(answer(200, &[], "{\"id\":"))]).await;
    let config = self::config(&server).with_silence_timeout(Duration::from_millis(50));
    let error = Client::new(config).unwrap().send(&request()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_connection_that_is_not_made_meets_the_connect_limit() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts; once the queue is full, further connections are left hanging.
    let mut queued = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        queued.push(connected.unwrap());
    }
    let url = format!("http://{address}");
    let config =
        Config::new().with_base_url(&url).with_max_retries(0).with_connect_timeout(Duration::from_millis(50));
    let error = Client::new(config).unwrap().send(&request()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection);
    assert!(error.to_string().contains(&url) && error.to_string().contains("connect_timeout"), "{error}");
}

#[tokio::test]
async fn answers_over_a_limit_are_refused_by_its_name() {
    let large = events(&[begun(), vec![text(&"x".repeat(1000))]].concat());
    let server = Server::start([say(200, &[], &large), say(200, &[], &large), say(200, &[], body())]).await;
    let small_events = Client::new(config(&server).with_event_limit(500)).unwrap();
    let (text, error) = read(small_events.stream(&request()).await.unwrap()).await;
    let error = error.unwrap();
    assert_eq!((text.as_str(), error.kind), ("Hel", ErrorKind::TooLarge));
    assert!(error.to_string().contains("event_limit"), "{error}");

    let small_bodies = Client::new(config(&server).with_body_limit(50)).unwrap();
    for error in
        [small_bodies.stream(&request()).await.unwrap_err(), small_bodies.send(&request()).await.unwrap_err()]
    {
        assert_eq!(error.kind, ErrorKind::TooLarge);
        assert!(error.to_string().contains("body_limit"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_shown() {
    let server = Server::start([say(200, &[], overloaded()), say(200, &[], "<html>hello</html>")]).await;
    let client = client(&server);
    assert_eq!(client.stream(&request()).await.unwrap_err().kind, ErrorKind::Overloaded);
    let error = client.stream(&request()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.to_string().contains("<html>hello</html>"), "{error}");
}

#[tokio::test]
async fn a_server_without_the_path_of_the_api_points_to_the_base_url() {
    let unknown = json!({ "type": "error", "error": { "type": "not_found_error", "message": "model: x" } });
    let server = Server::start([say(404, &[], "404 page not found"), say(404, &[], unknown)]).await;
    let client = client(&server);
    let error = client.send(&request()).await.unwrap_err();
    assert!(
        error.to_string().contains("check the base URL") && error.to_string().contains("page not found"),
        "{error}"
    );
    let error = client.send(&request()).await.unwrap_err();
    assert_eq!((error.message.as_str(), error.status), ("model: x", Some(404)));
}

#[tokio::test]
async fn dropping_a_stream_hangs_up_and_leaves_the_client_usable() {
    let (report, hung_up) = oneshot::channel();
    let said = answer(200, &[], &events(&begun()));
    let server = Server::start([Script::SayAndReport(said, report), say(200, &[], body())]).await;
    let client = client(&server);
    let mut stream = client.stream(&request()).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::MessageStart { .. }))));
    drop(stream);
    tokio::time::timeout(Duration::from_secs(10), hung_up).await.unwrap().unwrap();
    assert_eq!(client.send(&request()).await.unwrap().response.text(), "Hello");
}

#[tokio::test]
async fn dropping_a_call_hangs_up_and_leaves_the_client_usable() {
    let (report, hung_up) = oneshot::channel();
    let server = Server::start([Script::SayAndReport(String::new(), report), say(200, &[], body())]).await;
    let client = client(&server);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.send(&request()).await }
    });
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    tokio::time::timeout(Duration::from_secs(10), hung_up).await.unwrap().unwrap();
    assert_eq!(client.send(&request()).await.unwrap().response.text(), "Hello");
}

#[tokio::test]
async fn calls_one_after_another_share_a_connection() {
    const CALLS: usize = 50;
    let (server, streamed) = Server::keep_alive(events(&whole())).await;
    let streaming = client(&server);
    for _ in 0..CALLS {
        streaming.stream(&request()).await.unwrap().into_reply().await.unwrap();
    }
    assert_eq!(server.requests().len(), CALLS);
    let (server, fetched) = Server::keep_alive(body().to_string()).await;
    let fetching = client(&server);
    for _ in 0..CALLS {
        fetching.send(&request()).await.unwrap();
    }
    assert_eq!(server.requests().len(), CALLS);
    // Now and then a call dials while the connection before it is on its way back.
    for connections in [streamed, fetched] {
        let connections = connections.load(Ordering::SeqCst);
        assert!(connections <= CALLS / 5, "{connections} connections for {CALLS} calls");
    }
}

#[tokio::test]
async fn tls_is_spoken_to_an_https_server_and_to_no_other() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let config = Config::new().with_base_url(&url).with_api_key("sk-1").with_max_retries(0);
    let client = match Client::new(config) {
        Ok(client) => client,
        // A machine without root certificates can be sure of nobody, and says how to help it.
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(error.to_string().contains("ca-certificates"), "{error}");
            return;
        }
    };
    let first_bytes = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut first = [0; 3];
        socket.read_exact(&mut first).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        first
    });
    let error = client.send(&request()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection, "{error}");
    assert_eq!(first_bytes.await.unwrap()[..2], [0x16, 0x03], "a TLS handshake, and nothing in the clear");
}

#[tokio::test]
async fn a_request_that_is_not_json_is_refused_before_anything_is_sent() {
    let server = Server::start([]).await;
    let client = client(&server);
    let not_finite = request().with_temperature(f64::NAN);
    let replaced = request().with_extra("stream", json!(false));
    for (request, named) in [(not_finite, "temperature"), (replaced, "\"stream\"")] {
        let error = client.send(&request).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn streams_clients_and_errors_may_be_sent_to_other_tasks() {
    fn check<T: Send + 'static>() {}
    check::<MessageStream>();
    check::<Client>();
    check::<LlmError>();
}
