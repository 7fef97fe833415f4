//! The store that a command works on, and the run that its user means.

use std::{path::Path, sync::Arc};

use relight::{
    EventStore, RunId,
    store::{Page, RunQuery, RunSummary},
};

use crate::{exit::Exit, failure::Failure, output::text::shell_word};

/// Opens a store, and makes it where there is none.
pub(crate) async fn open_or_make(store: &str) -> Result<Arc<dyn EventStore>, Failure> {
    if store == IN_MEMORY {
        let message =
            "a store in memory ends with this process, and nobody could resume its runs; name a file";
        return Err(Failure::bad_input(message));
    }
    Ok(relight::open(store).await?)
}

/// Opens a store that must be there: a command that only looks shall not leave an empty one behind.
pub(crate) async fn open(store: &str) -> Result<Arc<dyn EventStore>, Failure> {
    // A path that cannot be looked at may exist; opening it says what is wrong.
    let is_missing = |path: &&str| !Path::new(path).try_exists().unwrap_or(true);
    if let Some(path) = file_of(store).filter(is_missing) {
        let message = format!(
            "there is no store at {path}; `relight run` makes one, or name yours with --store or RELIGHT_STORE"
        );
        return Err(Failure::new(Exit::StoreFailed, message));
    }
    open_or_make(store).await
}

/// The file that [`relight::open`] would open; `None` where the address names none.
fn file_of(store: &str) -> Option<&str> {
    let path = match store.strip_prefix("sqlite:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None if store == IN_MEMORY || store.contains("://") => return None,
        None => store,
    };
    (!path.is_empty()).then_some(path)
}

/// The run that a person means by its id or the beginning of it.
pub(crate) async fn find_run(store: &dyn EventStore, text: &str) -> Result<RunId, Failure> {
    if let Ok(run) = text.parse() {
        return Ok(run);
    }
    let looks_like_one = text.len() >= SHORTEST && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !looks_like_one {
        let message = format!(
            "{text:?} is not a run id, nor the first {SHORTEST} characters or more of one; `relight list` shows them"
        );
        return Err(Failure::bad_input(message));
    }
    let start = text.to_ascii_lowercase();
    let mut found: Vec<String> = Vec::new();
    let mut pages = Pages::new(RunQuery { limit: 1000, ..RunQuery::default() });
    while let Some(page) = pages.next(store).await? {
        let ids = page.items.iter().map(|run| run.run_id.to_string());
        let ids = ids.chain(page.damaged.into_iter().map(|row| row.run));
        found.extend(ids.filter(|id| id.starts_with(&start)));
    }
    match found.as_slice() {
        [one] => Ok(one.parse()?),
        [] => {
            let message =
                format!("there is no run {text} in this store; `relight list` shows those there are");
            Err(Failure::new(Exit::NoSuchRun, message))
        }
        [first, second, ..] => {
            let message = format!("{text} may be run {first} or {second}, and more; give more of its id");
            Err(Failure::bad_input(message))
        }
    }
}

/// The pages of a list, one after another.
pub(crate) struct Pages {
    query: Option<RunQuery>,
}

impl Pages {
    pub(crate) fn new(query: RunQuery) -> Self {
        Self { query: Some(query) }
    }

    pub(crate) async fn next(&mut self, store: &dyn EventStore) -> Result<Option<Page<RunSummary>>, Failure> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let page = store.list_runs(&query).await?;
        self.query = page.next.clone().map(|next| RunQuery { after: Some(next), ..query });
        Ok(Some(page))
    }
}

/// The words that name the same store in another command: none where that finds it by itself.
pub(crate) fn flag(store: &str) -> String {
    let elsewhere = std::env::var("RELIGHT_STORE").unwrap_or_else(|_| DEFAULT.to_owned());
    if store == elsewhere { String::new() } else { format!(" --store {}", shell_word(store)) }
}

/// Where runs are kept where nobody says so.
pub(crate) const DEFAULT: &str = "relight.db";

/// The address of a store that programs may use, and this one may not.
const IN_MEMORY: &str = "memory:";

/// How much of a run's id will do.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_a_file_is_looked_for_under_each_spelling_of_its_address() {
        for store in ["a/relight.db", "sqlite:a/relight.db", "sqlite://a/relight.db"] {
            assert_eq!(file_of(store), Some("a/relight.db"), "{store}");
        }
        assert_eq!(file_of("sqlite:///a/relight.db"), Some("/a/relight.db"));
        // Opening these says what is wrong with them, or needs no file.
        for store in ["memory:", "postgres://host/db", "", "sqlite:"] {
            assert_eq!(file_of(store), None, "{store}");
        }
    }
}
