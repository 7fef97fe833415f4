//! `relight export`: a log as JSON Lines, its records byte for byte and with their links.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::PathBuf,
};

use relight::{
    EventStore, RunId, Seq, StoreError,
    core::{ExportLine, Record},
    store::SeqRange,
};

use crate::{
    exit::Exit,
    failure::Failure,
    output::{self, text::count},
    store,
};

/// Export the log of a run as JSON Lines, with links
///
/// Nothing is verified and nothing is left out: of a damaged log, this saves what is left. Each line is an object with
/// `seq`, `recorded_at`, `link`, and the record as it is stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight export 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11 > run.jsonl
  relight export 0198c1f2-7f63 --output run.jsonl
  relight export 0198c1f2-7f63 | jq -r .record | jq .event.kind")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning
    run: String,

    /// Write to this file, which must not exist, instead of to stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let store = store::open(store).await?;
    let run = store::find_run(store.as_ref(), &args.run).await?;
    let mut target = Target::open(args.output)?;
    let missing = export(store.as_ref(), run, &mut target).await?;
    target.finish()?;
    match missing {
        0 => Ok(Exit::Ok),
        _ => {
            let gaps = count(missing, "event");
            Err(Failure::new(
                Exit::Damaged,
                format!("{gaps} of run {run} cannot be read; all others are exported"),
            ))
        }
    }
}

/// Writes every record that can be read; returns how many cannot.
async fn export(store: &dyn EventStore, run: RunId, target: &mut Target) -> Result<u64, Failure> {
    // Where the head is damaged, the log is followed as far as it goes.
    let head = match store.head(run).await {
        Ok(Some(head)) => Some(head.seq),
        Ok(None) => return Err(StoreError::UnknownRun { run }.into()),
        Err(StoreError::Corrupt { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let mut missing = 0;
    let mut next = Seq::FIRST;
    let mut gap = 0;
    while head.is_none_or(|head| next <= head) {
        match store.load(run, SeqRange { first: next, last: head }).await {
            Ok(page) if page.is_empty() => {
                missing += head.map_or(0, |head| head.number() + 1 - next.number());
                break;
            }
            Ok(page) => {
                gap = 0;
                for record in page {
                    next = record.seq.next();
                    target.write(record)?;
                }
            }
            Err(StoreError::Corrupt { seq, .. }) if head.is_some() || gap < LONGEST_GAP => {
                // What stands before the damage was returned, or is asked for by itself.
                if seq > next
                    && let Ok(before) = store.load(run, SeqRange::between(next, seq_before(seq))).await
                {
                    for record in before {
                        next = record.seq.next();
                        target.write(record)?;
                    }
                }
                missing += 1;
                gap += 1;
                next = next.max(seq).next();
            }
            Err(StoreError::Corrupt { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(missing)
}

fn seq_before(seq: Seq) -> Seq {
    Seq::new(seq.number() - 1).unwrap_or(Seq::FIRST)
}

enum Target {
    Stdout,
    File { path: PathBuf, file: BufWriter<File> },
}

impl Target {
    fn open(path: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout) };
        match File::create_new(&path) {
            Ok(file) => Ok(Self::File { path, file: BufWriter::new(file) }),
            Err(error) => Err(Self::cannot_write(&path, &error)),
        }
    }

    fn write(&mut self, record: Record) -> Result<(), Failure> {
        let line = ExportLine(record);
        match self {
            Self::Stdout => output::exact_line(line),
            Self::File { path, file } => {
                writeln!(file, "{line}").map_err(|error| Self::cannot_write(path, &error))
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout => Ok(()),
            Self::File { path, file } => file
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .map_err(|error| Self::cannot_write(&path, &error)),
        }
    }

    fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
        Failure::bad_input(format!("cannot write {}: {error}", path.display()))
    }
}

/// How many events in a row may be unreadable before a log without a head is taken to end.
const LONGEST_GAP: u64 = 1000;
