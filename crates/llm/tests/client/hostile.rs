//! Servers that mean harm, break off, or speak something else: a typed error in bounded time and memory.

use super::support::*;
use super::*;

const SOON: Duration = Duration::from_millis(100);
const NOW_AND_THEN: Duration = Duration::from_millis(1);

/// How a streamed and a plain call fail at a server that always does the same.
async fn failures(script: impl Fn() -> Script, settings: impl Fn(Config) -> Config) -> [LlmError; 2] {
    let server = Server::start([script(), script()]).await;
    let client = Client::new(settings(config(&server))).unwrap();
    let streamed = match client.stream(&request()).await {
        Ok(stream) => read(stream).await.1.unwrap(),
        Err(error) => error,
    };
    [streamed, client.send(&request()).await.unwrap_err()]
}

fn patient(config: Config) -> Config {
    config.with_first_event_timeout(SOON)
}

#[tokio::test]
async fn what_is_no_http_is_a_broken_connection() {
    let chunks = |size: &str| answer(200, &[("transfer-encoding", "chunked")], &format!("{size}\r\nx\r\n"));
    let said = [
        String::new(),
        "hello\r\n\r\n".to_owned(),
        "HTTP/1.1 200".to_owned(),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
        answer(200, &[("content-length", "1"), ("content-length", "2")], "x"),
        chunks("zz"),
        chunks("fffffffffffffffff"),
        answer(200, &[("x-huge", &"x".repeat(1 << 20))], ""),
    ];
    for said in said {
        for error in failures(|| Script::Say(said.clone()), |config| config).await {
            let start: String = said.chars().take(60).collect();
            assert_eq!(error.kind, ErrorKind::Connection, "{start}: {error}");
        }
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_bounded_in_number_and_time() {
    let endless_headers =
        || Script::Repeat("HTTP/1.1 200 OK\r\n".into(), "x-a: b\r\n".repeat(100), Duration::ZERO);
    for error in failures(endless_headers, |config| config).await {
        assert_eq!(error.kind, ErrorKind::Connection, "{error}");
    }
    let slow_header = || Script::Repeat("HTTP/1.1 200 OK\r\nx-a: ".into(), "b".into(), NOW_AND_THEN);
    let endless_prelude =
        || Script::Repeat(String::new(), "HTTP/1.1 100 Continue\r\n\r\n".repeat(100), Duration::ZERO);
    for error in [failures(slow_header, patient).await, failures(endless_prelude, patient).await].concat() {
        assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("first_event_timeout"), "{error}");
    }
}

#[tokio::test]
async fn an_old_server_is_understood() {
    let old = |body: String| Script::Say(format!("HTTP/1.0 200 OK\r\n\r\n{body}"));
    let server = Server::start([old(events(&whole())), old(body().to_string())]).await;
    let client = client(&server);
    assert_eq!(client.stream(&request()).await.unwrap().into_reply().await.unwrap().response.text(), "Hello");
    assert_eq!(client.send(&request()).await.unwrap().response.text(), "Hello");
}

#[tokio::test]
async fn a_compressed_answer_is_refused_by_its_coding() {
    for (status, kind) in [(200, ErrorKind::Protocol), (529, ErrorKind::Overloaded)] {
        let gzip = || say(status, &[("content-encoding", "gzip"), ("request-id", "req_1")], "\u{1f}\u{fffd}");
        for error in failures(gzip, |config| config).await {
            assert_eq!((error.kind, error.request_id.as_deref()), (kind, Some("req_1")));
            assert!(error.message.contains("gzip") && error.message.contains("asked not to"), "{error}");
        }
    }
    let identity = say(200, &[("content-encoding", "identity")], body());
    let server = Server::start([identity]).await;
    assert_eq!(client(&server).send(&request()).await.unwrap().response.text(), "Hello");
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_never_taken_for_whole() {
    let events = events(&whole());
    let chunk = format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len());
    let whole = answer(200, &[("transfer-encoding", "chunked")], &chunk);
    let terminal = whole.find("\r\n0\r\n").unwrap();
    let cuts: Vec<usize> = (0..whole.len()).step_by(7).chain([terminal - 1, terminal]).collect();
    let server = Server::start(cuts.iter().map(|cut| Script::Say(whole[..*cut].to_owned()))).await;
    let client = client(&server);
    for cut in cuts {
        let result = match client.stream(&request()).await {
            Ok(stream) => stream.into_reply().await,
            Err(error) => Err(error),
        };
        match result {
            Ok(reply) => assert!(cut >= terminal && reply.response.text() == "Hello", "cut at {cut}"),
            Err(error) => {
                assert!(cut < terminal, "cut at {cut}: {error}");
                assert_eq!(error.kind, ErrorKind::Connection, "cut at {cut}: {error}");
                assert_eq!(error.stage == Stage::MidStream, error.partial.is_some(), "cut at {cut}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_cut_at_any_byte_is_never_taken_for_whole_and_once_begun_not_asked_for_again() {
    let text = body().to_string();
    let whole = answer(200, &[("content-length", &text.len().to_string())], &text);
    let head = whole.len() - text.len();
    for (cut, tries) in [(0, 2), (head, 2), (head + 1, 1), (whole.len() - 1, 1)] {
        let server = Server::start([(); 2].map(|()| Script::Say(whole[..cut].to_owned()))).await;
        let config = config(&server).with_max_retries(1).with_retry_budget(Duration::from_secs(10));
        let error = Client::new(config).unwrap().send(&request()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Connection, "cut at {cut}: {error}");
        assert_eq!(server.requests().len(), tries, "cut at {cut}: {error}");
    }
}

#[tokio::test]
async fn a_reset_is_a_broken_connection_at_every_stage() {
    let head = answer(200, &[("transfer-encoding", "chunked")], "");
    let begun = events(&begun());
    let begun = format!("{head}{:x}\r\n{begun}\r\n", begun.len());
    for said in [String::new(), head[..20].to_owned(), head, begun] {
        for error in failures(|| Script::SayAndReset(said.clone()), |config| config).await {
            assert_eq!(error.kind, ErrorKind::Connection, "{said}: {error}");
        }
    }
}

#[tokio::test]
async fn a_refused_answer_whose_body_trickles_is_not_waited_for_without_end() {
    let trickle = || Script::Repeat(answer(500, &[], "it broke"), " ".into(), NOW_AND_THEN);
    for error in failures(trickle, |config| config.with_silence_timeout(SOON)).await {
        assert_eq!((error.kind, error.status), (ErrorKind::Server, Some(500)));
        assert_eq!(error.message, "it broke");
    }
}

#[tokio::test]
async fn a_refused_answer_whose_body_never_ends_is_cut() {
    let flood = || Script::Repeat(answer(500, &[], "it broke"), "x".repeat(1 << 16), Duration::ZERO);
    for error in failures(flood, |config| config).await {
        assert_eq!((error.kind, error.status), (ErrorKind::Server, Some(500)));
        assert!(error.message.len() < 1000, "{} bytes", error.message.len());
    }
}

#[tokio::test]
async fn endless_events_meet_the_limit_on_the_whole_answer() {
    let begun = answer(200, &[], &events(&begun()));
    for piece in [
        events(&[json!({ "type": "ping" })]),
        events(&[text("x")]),
        ": comment\n".repeat(100),
        "\n".repeat(100),
    ] {
        let server = Server::start([Script::Repeat(begun.clone(), piece, Duration::ZERO)]).await;
        let client = Client::new(config(&server).with_body_limit(100_000)).unwrap();
        let (_, error) = read(client.stream(&request()).await.unwrap()).await;
        let error = error.unwrap();
        assert_eq!((error.kind, error.stage), (ErrorKind::TooLarge, Stage::MidStream));
        assert!(error.to_string().contains("body_limit"), "{error}");
        assert!(error.partial.unwrap().text().starts_with("Hel"));
    }
}

#[tokio::test]
async fn pings_before_the_answer_do_not_begin_it() {
    let ping = events(&[json!({ "type": "ping" })]);
    // Nothing but pings is slowness.
    let pings = || Script::Repeat(answer(200, &[], ""), ping.clone(), NOW_AND_THEN);
    let server = Server::start([pings()]).await;
    let error = Client::new(patient(config(&server))).unwrap().stream(&request()).await.unwrap_err();
    assert!(error.to_string().contains("first_event_timeout"), "{error}");
    assert_eq!((error.kind, error.stage), (ErrorKind::Timeout, Stage::BeforeAnswer));

    // An error behind them is a refusal, which may be tried again.
    let busy = events(&[json!({ "type": "ping" }), overloaded()]);
    let server = Server::start([say(200, &[], busy), say(200, &[], ping.clone() + &events(&whole()))]).await;
    let client = Client::new(config(&server).with_max_retries(1)).unwrap();
    let reply = client.stream(&request()).await.unwrap().into_reply().await.unwrap();
    assert_eq!((reply.response.text().as_str(), reply.delivery.retries), ("Hello", 1));
}

/// The connection is given up, rather than the caller kept waiting.
#[tokio::test]
async fn an_endless_body_behind_the_terminal_event_holds_nothing_up() {
    let whole = answer(200, &[], &events(&whole()));
    let server = Server::start([Script::Repeat(whole, ": more\n".repeat(1000), Duration::ZERO)]).await;
    let (text, error) = read(client(&server).stream(&request()).await.unwrap()).await;
    assert_eq!((text.as_str(), error), ("Hello", None));
}
