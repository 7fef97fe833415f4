//! Streams an answer to standard output as it arrives.
//!
//! `ANTHROPIC_API_KEY=… cargo run -p relight-llm --example stream -- "Why is the sky blue?"`
//!
//! `ANTHROPIC_BASE_URL` names another server, `ANTHROPIC_MODEL` another model.

use std::env;
use std::io::Write;

use relight_llm::{Client, Config, Message, MessageRequest, Provider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let question = env::args().nth(1).unwrap_or_else(|| "Why is the sky blue? One sentence.".to_owned());
    let model = env::var("ANTHROPIC_MODEL").unwrap_or_else(|_| "claude-sonnet-4-5".to_owned());

    let mut config = Config::new();
    if let Ok(url) = env::var("ANTHROPIC_BASE_URL") {
        config = config.with_base_url(url);
    }
    if let Ok(key) = env::var("ANTHROPIC_API_KEY") {
        config = config.with_api_key(key);
    }
    let client = Client::new(config)?;
    let request = MessageRequest::new(model, 1024).push_message(Message::user(question));

    let mut stream = client.stream(&request).await?;
    let mut out = std::io::stdout();
    while let Some(event) = stream.next().await {
        if let Some(text) = event?.text() {
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    let reply = stream.into_reply().await?;
    println!("\n[{}, {} tokens]", reply.response.stop_reason, reply.response.usage.output_tokens);
    Ok(())
}
