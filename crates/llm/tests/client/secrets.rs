//! No secret leaves the client, whatever the server does with it.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use super::support::*;
use super::*;

const KEY: &str = "sk-ant-hunter2";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

fn shown(error: &LlmError) -> String {
    let mut all = format!("{error} {error:?} {error:#?} {}", serde_json::to_string(error).unwrap());
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        all.push_str(&format!(" {below} {below:?}"));
        cause = below;
    }
    all
}

#[tokio::test]
async fn no_secret_is_in_any_debug_log_error_or_event() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);

    let quoting = json!({ "type": "error", "error": { "type": KEY, "message": format!("bad key {KEY}") } });
    let server = Server::start([
        say(401, &[("request-id", KEY)], &quoting),
        say(200, &[], events(&[begun(), vec![quoting.clone()]].concat())),
        say(500, &[("retry-after-ms", "1")], KEY),
        say(200, &[("content-length", "100000")], events(&begun())),
        say(200, &[], format!("not events but {KEY}")),
        // The key that the message quotes is cut where messages are.
        say(400, &[], format!("{}{KEY}", "x".repeat(193))),
        say(
            200,
            &[("request-id", KEY), ("x-ratelimit-reset", KEY)],
            events(&[begun(), vec![overloaded()]].concat()),
        ),
        // Of a header, a server quotes the word that it refuses.
        say(403, &[], "no such token: gw-hunter2"),
    ])
    .await;
    let config = config(&server).with_api_key(KEY).with_header("authorization", "Bearer gw-hunter2");
    let mut all = format!("{config:?}");
    let client = Client::new(config.with_max_retries(1)).unwrap();
    all.push_str(&format!("{client:?}"));

    all.push_str(&shown(&client.send(&request()).await.unwrap_err()));
    let (_, error) = read(client.stream(&request()).await.unwrap()).await;
    all.push_str(&shown(&error.unwrap()));
    let stream = client.stream(&request()).await.unwrap();
    all.push_str(&format!("{stream:?} {:?}", stream.delivery()));
    all.push_str(&shown(&read(stream).await.1.unwrap()));
    all.push_str(&shown(&client.stream(&request()).await.unwrap_err()));
    all.push_str(&shown(&client.stream(&request()).await.unwrap_err()));
    let stream = client.stream(&request()).await.unwrap();
    all.push_str(&format!("{:?}", stream.delivery()));
    all.push_str(&shown(&read(stream).await.1.unwrap()));
    all.push_str(&shown(&client.send(&request()).await.unwrap_err()));

    drop(guard);
    all.push_str(&String::from_utf8(log.0.lock().unwrap().clone()).unwrap());
    assert!(all.contains("model call failed"), "the log was really read: {all}");
    assert!(!all.contains("hunter2") && !all.contains("sk-a"), "{all}");
}
