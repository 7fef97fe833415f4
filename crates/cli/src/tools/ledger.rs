//! `ledger`: appends entries to a file, each at most once, and can tell later whether it did.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use relight::{Reconciled, Tool, ToolCall, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A file of JSON Lines: `{"key": .., "run": .., "entry": ..}`, where `entry` is what the model gave.
///
/// All work happens under the file's lock: the key is looked for, the line written and synced. So a late attempt with
/// the same key finds the line of the other and writes none. A line that a crash tore is left as it is, and the next
/// one begins behind it.
pub(crate) struct Ledger {
    spec: ToolSpec,
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    run: String,
    entry: Value,
}

impl Ledger {
    pub(crate) const fn new(spec: ToolSpec, path: PathBuf) -> Self {
        Self { spec, path }
    }

    /// The file, locked. Waiting for the lock is done here, where it can be given up, and not on another thread.
    async fn lock(&self) -> Result<File, ToolError> {
        let open = || OpenOptions::new().read(true).append(true).create(true).open(&self.path);
        let file = open().map_err(|error| self.not_done("cannot_open", &error))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => {
                    tokio::time::sleep(LOCK_POLL).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let error = format!("another process held its lock for {} s", LOCK_WAIT.as_secs());
                    return Err(self.not_done("locked", &error));
                }
                Err(TryLockError::Error(error)) => return Err(self.not_done("cannot_lock", &error)),
            }
        }
    }

    fn not_done(&self, code: &str, error: &dyn std::fmt::Display) -> ToolError {
        ToolError::not_done(code, format!("the ledger cannot be written: {error}"))
    }
}

#[async_trait]
impl Tool for Ledger {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        let file = self.lock().await?;
        let line = Line {
            key: call.idempotency_key.to_owned(),
            run: call.run.to_string(),
            entry: call.input.clone(),
        };
        let path = self.path.clone();
        match tokio::task::spawn_blocking(move || append(file, &line, &path)).await {
            Ok(Ok(number)) => Ok(outcome(number)),
            Ok(Err(error)) => {
                Err(ToolError::new("cannot_write", format!("the ledger cannot be written: {error}")))
            }
            Err(_) => Err(ToolError::new("panicked", "the ledger could not be written")),
        }
    }

    async fn reconcile(&self, call: ToolCall<'_>) -> Reconciled {
        let file = match self.lock().await {
            Ok(file) => file,
            Err(error) => {
                return Reconciled::Unknown(format!("its ledger could not be looked into: {error}"));
            }
        };
        let key = call.idempotency_key.to_owned();
        let looked = tokio::task::spawn_blocking(move || {
            let found = find(&file, &key)?;
            // The line may be in memory only: its writer died before it was synced.
            file.sync_all().map(|()| found)
        });
        match looked.await {
            Ok(Ok(Some(number))) => Reconciled::Done(outcome(number)),
            // A late attempt would find the line of the next one.
            Ok(Ok(None)) => Reconciled::NotDone,
            Ok(Err(error)) => Reconciled::Unknown(format!("its ledger could not be read: {error}")),
            Err(_) => Reconciled::Unknown("its ledger could not be read".to_owned()),
        }
    }
}

/// The same whether it was appended now or found later.
fn outcome(number: u64) -> Value {
    json!({"line": number})
}

/// Appends a line unless its key is there; returns its number.
fn append(mut file: File, line: &Line, path: &Path) -> io::Result<u64> {
    if let Some(number) = find(&file, &line.key)? {
        file.sync_all()?;
        return Ok(number);
    }
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let length = file.seek(SeekFrom::End(0))?;
    if !ends_a_line(&mut file, length)? {
        text.insert(0, '\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    if length == 0
        && let Some(folder) = path.parent()
    {
        // A new file is there after a power cut only if its folder is synced as well.
        File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()?;
    }
    find(&file, &line.key)?.ok_or_else(|| io::Error::other("the line is not there after it was written"))
}

/// The number of the line with a key. A torn line is not one; one that only lacks its end is.
fn find(mut file: &File, key: &str) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if serde_json::from_slice::<Line>(&bytes).is_ok_and(|line| line.key == key) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn ends_a_line(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    io::Read::read_exact(file, &mut byte)?;
    Ok(byte == [b'\n'])
}

const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::fs;

    use relight::{Effect, RunId, Seq};

    use super::*;

    struct Fixture {
        _folder: tempfile::TempDir,
        ledger: Ledger,
    }

    fn ledger() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let spec = ToolSpec::new("ledger", "Appends.", Effect::Write);
        let ledger = Ledger::new(spec, folder.path().join("ledger.jsonl"));
        Fixture { _folder: folder, ledger }
    }

    impl Fixture {
        async fn call(&self, key: &str) -> Result<Value, ToolError> {
            let input = json!({"amount": 7});
            self.ledger.call(call(&input, key)).await
        }

        async fn reconcile(&self, key: &str) -> Reconciled {
            let input = json!({"amount": 7});
            self.ledger.reconcile(call(&input, key)).await
        }

        fn text(&self) -> String {
            fs::read_to_string(&self.ledger.path).unwrap()
        }
    }

    fn call<'a>(input: &'a Value, key: &'a str) -> ToolCall<'a> {
        ToolCall::new(
            input,
            key,
            RunId::from_parts("2026-01-01T00:00:00Z".parse().unwrap(), [7; 10]),
            Seq::FIRST,
        )
    }

    #[tokio::test]
    async fn an_entry_is_appended_once_however_often_it_is_tried() {
        let fixture = ledger();
        assert_eq!(fixture.call("a").await, Ok(json!({"line": 1})));
        assert_eq!(fixture.call("b").await, Ok(json!({"line": 2})));
        assert_eq!(fixture.call("a").await, Ok(json!({"line": 1})));
        assert_eq!(fixture.text().lines().count(), 2);
        assert!(fixture.text().contains(r#""entry":{"amount":7}"#), "{}", fixture.text());
    }

    #[tokio::test]
    async fn what_was_done_is_found_out() {
        let fixture = ledger();
        assert_eq!(fixture.reconcile("a").await, Reconciled::NotDone);
        let done = fixture.call("a").await.unwrap();
        assert_eq!(fixture.reconcile("a").await, Reconciled::Done(done));
        assert_eq!(fixture.reconcile("b").await, Reconciled::NotDone);
    }

    #[tokio::test]
    async fn a_line_torn_anywhere_is_survived() {
        let fixture = ledger();
        fixture.call("a").await.unwrap();
        let whole = fixture.text();
        for cut in 1..whole.len() {
            fs::write(&fixture.ledger.path, &whole[..cut]).unwrap();
            // Without its last byte, the line break, the line is whole.
            let is_whole = cut == whole.len() - 1;
            let expected = if is_whole { Reconciled::Done(json!({"line": 1})) } else { Reconciled::NotDone };
            assert_eq!(fixture.reconcile("a").await, expected, "cut at {cut}");
            let line = if is_whole { 1 } else { 2 };
            assert_eq!(fixture.call("a").await, Ok(json!({"line": line})), "cut at {cut}");
            assert_eq!(fixture.call("b").await, Ok(json!({"line": line + 1})), "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn a_ledger_that_cannot_be_opened_did_nothing() {
        let spec = ToolSpec::new("ledger", "Appends.", Effect::Write);
        let fixture = Fixture {
            _folder: tempfile::tempdir().unwrap(),
            ledger: Ledger::new(spec, "/not/there/ledger.jsonl".into()),
        };
        assert!(fixture.call("a").await.unwrap_err().is_not_done());
        assert!(matches!(fixture.reconcile("a").await, Reconciled::Unknown(_)));
    }

    #[tokio::test]
    async fn a_writer_waits_for_the_lock_of_another() {
        let fixture = ledger();
        let other = File::create(&fixture.ledger.path).unwrap();
        other.lock().unwrap();
        let mut appending = std::pin::pin!(fixture.call("a"));
        assert!(tokio::time::timeout(LOCK_POLL * 2, &mut appending).await.is_err());
        assert_eq!(fixture.text(), "");
        drop(other);
        assert_eq!(appending.await, Ok(json!({"line": 1})));
    }
}
