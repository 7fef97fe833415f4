//! Lists of runs: which index serves a query, and what its rows mean.

use relight_core::{RunSummary, StatusKind};
use sqlx::{
    AssertSqlSafe, Sqlite,
    query::Query,
    query_with,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::values::{Arguments, Columns};
use crate::{DamagedRow, Page, RunQuery, StoreError, query::Position};

/// A query over `runs`, by its own index where nothing is filtered, else over `facets`.
///
/// The first facet asked for is walked in the list's order, one walk for each status, and further ones are looked up
/// run by run. So a page costs the same however many runs there are, unless two facets are common alone and rare
/// together.
#[derive(Debug)]
pub(super) struct List {
    facets: Vec<(String, String)>,
    statuses: Vec<StatusKind>,
    after: Option<Position>,
    limit: usize,
}

impl List {
    pub(super) fn new(asked: &RunQuery, limit: usize) -> Result<Self, StoreError> {
        let label = |(name, value): (&String, &String)| (format!("label:{name}"), value.clone());
        let agent = asked.agent_hash.iter().map(|agent| ("agent".to_owned(), agent.clone()));
        let mut facets: Vec<(String, String)> = asked.labels.iter().map(label).chain(agent).collect();
        let mut statuses = asked.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        match (facets.is_empty(), statuses.is_empty()) {
            (true, false) => facets.push((String::new(), String::new())),
            (false, true) => statuses = StatusKind::ALL.to_vec(),
            _ => {}
        }
        let after = asked.after.as_ref().map(Position::read).transpose()?;
        Ok(Self { facets, statuses, after, limit })
    }

    /// Asks for one run more than the page holds, to know whether there is a next page.
    pub(super) fn query(&self) -> Query<'static, Sqlite, SqliteArguments> {
        let mut arguments = Arguments::default();
        let text = if self.facets.is_empty() {
            let after = if self.after.is_some() { "WHERE (started_at, id) < (?, ?)" } else { "" };
            self.add_end(&mut arguments);
            format!("SELECT id, started_at, summary FROM runs {after} {ORDER}")
        } else {
            let walks: Vec<String> =
                self.statuses.iter().map(|status| self.walk(*status, &mut arguments)).collect();
            arguments.add(self.asked_rows());
            format!(
                "SELECT runs.id, found.started_at, summary
                 FROM (SELECT * FROM ({}) {ORDER}) AS found JOIN runs ON key = run
                 ORDER BY found.started_at DESC, found.id DESC",
                walks.join(" UNION ALL ")
            )
        };
        query_with(AssertSqlSafe(text), arguments.into_inner())
    }

    /// The runs of one status, in order.
    fn walk(&self, status: StatusKind, arguments: &mut Arguments) -> String {
        let ((facet, value), others) = self.facets.split_first().expect("only lists with a facet are walked");
        arguments.add(facet.clone());
        arguments.add(value.clone());
        arguments.add(status.as_str());
        for (facet, value) in others {
            arguments.add(facet.clone());
            arguments.add(value.clone());
        }
        let others = "AND EXISTS (SELECT 1 FROM facets AS other
            WHERE other.facet = ? AND other.value = ? AND other.status = walked.status
            AND other.started_at = walked.started_at AND other.id = walked.id) "
            .repeat(others.len());
        let after = if self.after.is_some() { "AND (started_at, id) < (?, ?)" } else { "" };
        self.add_end(arguments);
        format!(
            "SELECT * FROM (SELECT started_at, id, run FROM facets AS walked
             WHERE facet = ? AND value = ? AND status = ? {others} {after} {ORDER})"
        )
    }

    fn add_end(&self, arguments: &mut Arguments) {
        if let Some(after) = &self.after {
            arguments.add(after.started_at);
            arguments.add(after.id.clone());
        }
        arguments.add(self.asked_rows());
    }

    fn asked_rows(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX).saturating_add(1)
    }

    /// Sorts the rows into what can be read and what cannot.
    pub(super) fn page(&self, rows: &[SqliteRow]) -> Page<RunSummary> {
        let (mut items, mut damaged) = (Vec::new(), Vec::new());
        let shown = &rows[..rows.len().min(self.limit)];
        for row in shown {
            match summary(row) {
                Ok(run) => items.push(run),
                Err(why) => damaged.push(DamagedRow { run: name(row), why }),
            }
        }
        let next = shown.last().filter(|_| rows.len() > self.limit).map(|row| position(row).cursor());
        Page { items, damaged, next }
    }
}

fn summary(row: &SqliteRow) -> Result<RunSummary, String> {
    let run = row.run(0)?;
    let summary: RunSummary =
        serde_json::from_str(row.text(2)?).map_err(|error| format!("its summary is unreadable: {error}"))?;
    if summary.run_id != run {
        return Err(format!("its summary is of run {}", summary.run_id));
    }
    Ok(summary)
}

fn position(row: &SqliteRow) -> Position {
    Position { started_at: row.number(1).unwrap_or(i64::MIN), id: row.bytes(0).unwrap_or_default() }
}

fn name(row: &SqliteRow) -> String {
    match row.run(0) {
        Ok(run) => run.to_string(),
        Err(_) => row.bytes(0).unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

const ORDER: &str = "ORDER BY started_at DESC, id DESC LIMIT ?";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sqlx::{Execute, Row};

    use super::*;
    use crate::{
        SqliteOptions,
        sqlite::connect::{Connector, Place},
    };

    /// Asks SQLite how it would find the rows.
    async fn plan(asked: &RunQuery) -> Vec<(i64, String)> {
        let connector = Connector::new(Place::Memory, &SqliteOptions::default());
        let mut connection = connector.open().await.unwrap();
        let mut query = List::new(asked, 10).unwrap().query();
        let arguments = query.take_arguments().unwrap().unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", query.sql().as_str());
        let rows = query_with(AssertSqlSafe(sql), arguments).fetch_all(&mut connection).await.unwrap();
        rows.iter().map(|row| (row.get("parent"), row.get("detail"))).collect()
    }

    #[tokio::test]
    async fn no_page_reads_or_sorts_all_runs() {
        let cursor = Position { started_at: 0, id: vec![0; 16] }.cursor();
        for agent_hash in [None, Some("agent".to_owned())] {
            for labels in [BTreeMap::new(), BTreeMap::from([("a".to_owned(), "b".to_owned())])] {
                for statuses in
                    [vec![], vec![StatusKind::Running], vec![StatusKind::Running, StatusKind::Failed]]
                {
                    for after in [None, Some(cursor.clone())] {
                        let (agent_hash, labels, statuses) =
                            (agent_hash.clone(), labels.clone(), statuses.clone());
                        let asked = RunQuery { statuses, agent_hash, labels, limit: 10, after };
                        check(&asked, &plan(&asked).await);
                    }
                }
            }
        }
    }

    #[track_caller]
    fn check(asked: &RunQuery, plan: &[(i64, String)]) {
        let has_filter = !asked.statuses.is_empty() || asked.agent_hash.is_some() || !asked.labels.is_empty();
        let found = |text: &str| -> Vec<i64> {
            plan.iter().filter(|(_, step)| step.contains(text)).map(|(parent, _)| *parent).collect()
        };
        let walks = found(if has_filter {
            "SEARCH walked USING PRIMARY KEY"
        } else {
            "runs USING INDEX runs_by_start"
        });
        assert!(!walks.is_empty(), "{asked:?}: {plan:#?}");
        assert!(found("SCAN walked").is_empty() && found("SCAN facets").is_empty(), "{plan:#?}");
        // Only the few rows that a walk has found may be sorted.
        assert!(!found("USE TEMP B-TREE").iter().any(|sort| walks.contains(sort)), "{asked:?}: {plan:#?}");
    }
}
