//! `relight verify`: whether logs are what was appended.

use relight::{
    EventStore, RunId,
    store::{Digest, RunQuery},
};
use serde_json::json;

use super::log::{self, Fault, ReadLog, Tally};
use crate::{
    exit::Exit,
    failure::Failure,
    output::{self, style, text::one_line},
    store::{self, Pages},
};

/// Verify the log of a run, or of every run
///
/// Each record is tied by a hash to all before it, so a change, removal, insertion or reordering is found, unless
/// every later link and the head were recomputed as well. Keep the head's link elsewhere and give it with `--head` to
/// find that, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  relight verify
  relight verify 0198c1f2-7f63-7a0e-9a3c-0d2f3a6c9b11
  relight verify 0198c1f2-7f63 --head sha256:9f2c…")]
pub(crate) struct Args {
    /// The run's id, or enough of its beginning; every run, where it is not given
    run: Option<String>,

    /// The link that the log must end in, or pass through
    #[arg(long, value_name = "LINK", requires = "run")]
    head: Option<Digest>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, store: &str) -> Result<Exit, Failure> {
    let store = store::open(store).await?;
    if let Some(run) = &args.run {
        let run = store::find_run(store.as_ref(), run).await?;
        let log = log::read(store.as_ref(), run).await?;
        if let Some(head) = args.head {
            check_head(store.as_ref(), run, &log, head).await?;
        }
        print(&args, run, &log)?;
        return log.into_result().map(|()| Exit::Ok);
    }
    let mut tally = Tally::default();
    let mut pages = Pages::new(RunQuery { limit: 1000, ..RunQuery::default() });
    while let Some(page) = pages.next(store.as_ref()).await? {
        for row in page.damaged {
            let fault = Fault::damaged(row.why);
            tally.add(Some(&fault));
            print_fault(&args, &row.run, &fault)?;
        }
        for summary in page.items {
            let run = summary.run_id;
            match log::read(store.as_ref(), run).await {
                Ok(log) => {
                    tally.add(log.fault().as_ref());
                    print(&args, run, &log)?;
                }
                Err(failure) if failure.exit == Exit::NoSuchRun => {
                    let fault = Fault::damaged("the list knows it, but its log is gone");
                    tally.add(Some(&fault));
                    print_fault(&args, &run.to_string(), &fault)?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    tally.into_result()
}

/// The log may have grown since the link was kept, so the link may also stand within it.
async fn check_head(store: &dyn EventStore, run: RunId, log: &ReadLog, head: Digest) -> Result<(), Failure> {
    if log.link == Some(head) {
        return Ok(());
    }
    let mut range = relight::store::SeqRange::ALL;
    for _ in 0..log.events.len() {
        let page = store.load(run, range).await?;
        if page.iter().any(|record| record.link == head) {
            return Ok(());
        }
        let Some(last) = page.last() else { break };
        range.first = last.seq.next();
    }
    let found = log.link.map_or_else(|| "no link".to_owned(), |link| link.to_string());
    let message = format!(
        "the log of run {run} neither ends in {head} nor passes through it: it ends in {found}, so it is not the log \
         whose link was kept"
    );
    Err(Failure::new(Exit::Damaged, message))
}

fn print(args: &Args, run: RunId, log: &ReadLog) -> Result<(), Failure> {
    if let Some(fault) = log.fault() {
        return print_fault(args, &run.to_string(), &fault);
    }
    let (events, link) = (log.events.len(), log.link);
    if args.json {
        return output::json_line(&json!({"run_id": run, "verified": true, "events": events, "head": link}));
    }
    let link = link.map_or_else(String::new, |link| link.to_string());
    output::line(format_args!("{0}ok{0:#}       {run}  {events:>6} events  {link}", style::GOOD))
}

fn print_fault(args: &Args, run: &str, fault: &Fault) -> Result<(), Failure> {
    if args.json {
        return output::json_line(&json!({"run_id": run, "verified": false, "damage": fault.why}));
    }
    let (word, run, why) = (fault.word, one_line(run), one_line(&fault.why));
    output::line(format_args!("{0}{word:<7}{0:#}  {run}  {why}", style::BAD))
}
