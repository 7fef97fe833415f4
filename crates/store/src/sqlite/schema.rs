//! The tables of a store, how a file is recognised as one, and how it gets to the newest version.

use sqlx::{AssertSqlSafe, Row, SqliteConnection, query, raw_sql};

use super::connect::Place;
use crate::StoreError;

/// Makes sure that a connection is to a store of this version: recognises it, makes or migrates it where needed.
///
/// A file that is something else is left as it is.
pub(super) async fn prepare(connection: &mut SqliteConnection, place: &Place) -> Result<(), Refusal> {
    let verdict = Standing::read(connection).await?.verdict(place).map_err(Refusal::Store)?;
    if let Place::File(_) = place {
        // A copy made by other tools may have lost the mode, so this is not only for a new file.
        raw_sql("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
    }
    if verdict == Verdict::Current {
        return Ok(());
    }
    raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let migrated = migrate(connection, place).await;
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = raw_sql(end).execute(&mut *connection).await;
    migrated?;
    ended?;
    Ok(())
}

/// Why a connection cannot be used: SQLite failed, or what it found is none of ours.
pub(super) enum Refusal {
    Sqlite(sqlx::Error),
    Store(StoreError),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Runs inside a transaction: another process may have been faster.
async fn migrate(connection: &mut SqliteConnection, place: &Place) -> Result<(), Refusal> {
    let standing = Standing::read(connection).await?;
    let Verdict::Migrate { from } = standing.verdict(place).map_err(Refusal::Store)? else {
        return Ok(());
    };
    for step in &MIGRATIONS[from..] {
        raw_sql(*step).execute(&mut *connection).await?;
    }
    let mark = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {};", MIGRATIONS.len());
    raw_sql(AssertSqlSafe(mark)).execute(&mut *connection).await?;
    Ok(())
}

/// What a file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    application: i64,
    version: i64,
    tables: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Current,
    Migrate { from: usize },
}

impl Standing {
    async fn read(connection: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let sql = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
                   FROM pragma_application_id, pragma_user_version";
        let row = query(sql).fetch_one(connection).await?;
        Ok(Self { application: row.try_get(0)?, version: row.try_get(1)?, tables: row.try_get(2)? })
    }

    fn verdict(self, place: &Place) -> Result<Verdict, StoreError> {
        let newest = i64::try_from(MIGRATIONS.len()).expect("there are few migrations");
        let other = |why: String| StoreError::NotADatabase { path: place.path(), why };
        match self {
            Self { application: 0, version: 0, tables: 0 } => Ok(Verdict::Migrate { from: 0 }),
            Self { application, tables, .. } if application != APPLICATION => {
                let why = format!("an SQLite database of another program ({tables} tables and indexes)");
                Err(other(why))
            }
            Self { version, .. } if version == newest => Ok(Verdict::Current),
            Self { version, .. } if version > newest => {
                Err(StoreError::NewerSchema { path: place.path(), found: version, supported: newest })
            }
            Self { version, .. } => match usize::try_from(version) {
                Ok(from) => Ok(Verdict::Migrate { from }),
                Err(_) => Err(other(format!("its schema version is {version}"))),
            },
        }
    }
}

/// Marks the file as ours, in its header.
const APPLICATION: i64 = i32::from_be_bytes(*b"RLIT") as i64;

/// Each takes the schema from the version of its index to the next.
const MIGRATIONS: [&str; 1] = [VERSION_1];

/// `events` is in the order of arrival, so that writing many runs at once fills pages from first to last; its unique
/// index finds one run's events. `recorded_at` is in nanoseconds since 1970, or text where an integer cannot hold it.
/// `batch` stands with the first event of each batch.
///
/// All appends go through the view `appends`, one row an event, so that one statement can carry many; the first event
/// of a batch carries the new state of its run. Where a batch does not follow the head (0: there must be no run) the
/// whole statement is undone.
///
/// `facets` is an index kept by triggers, as a common one would be rewritten with each append, though what it holds
/// changes only a few times in the life of a run. Every run has a row in the facet '', one in 'agent', and one for
/// each label.
const VERSION_1: &str = "
CREATE TABLE runs (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    started_at INTEGER NOT NULL,
    head INTEGER NOT NULL,
    link BLOB NOT NULL,
    status TEXT NOT NULL,
    agent_hash TEXT NOT NULL,
    wake_at INTEGER,
    labels TEXT NOT NULL,
    summary TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_start ON runs (started_at, id);

CREATE TABLE events (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    recorded_at ANY NOT NULL,
    batch BLOB,
    link BLOB NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (run, seq)
) STRICT;

CREATE VIEW appends (
    id, seq, recorded_at, event_link, bytes,
    batch, expected, head, link, started_at, status, agent_hash, wake_at, labels, summary
) AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TRIGGER appended INSTEAD OF INSERT ON appends WHEN new.id IS NOT NULL BEGIN
    INSERT INTO runs (id, started_at, head, link, status, agent_hash, wake_at, labels, summary)
        SELECT new.id, new.started_at, new.head, new.link, new.status, new.agent_hash, new.wake_at, new.labels,
            new.summary WHERE new.expected = 0;
    UPDATE runs SET head = new.head, link = new.link, status = new.status, agent_hash = new.agent_hash,
        wake_at = new.wake_at, labels = new.labels, summary = new.summary
        WHERE id = new.id AND head = new.expected;
    SELECT RAISE(ABORT, 'the run is not where it was expected') WHERE new.expected > 0 AND changes() = 0;
    INSERT INTO events (run, seq, recorded_at, batch, link, bytes)
        SELECT key, new.seq, new.recorded_at, new.batch, new.event_link, new.bytes FROM runs WHERE id = new.id;
END;

CREATE TABLE facets (
    facet TEXT NOT NULL,
    value TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (facet, value, status, started_at, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER runs_inserted AFTER INSERT ON runs BEGIN
    INSERT INTO facets VALUES ('', '', new.status, new.started_at, new.id, new.key);
    INSERT INTO facets VALUES ('agent', new.agent_hash, new.status, new.started_at, new.id, new.key);
    INSERT INTO facets SELECT 'label:' || key, value, new.status, new.started_at, new.id, new.key
        FROM json_each(new.labels);
END;
CREATE TRIGGER runs_updated AFTER UPDATE OF status, agent_hash, labels ON runs
WHEN old.status <> new.status OR old.agent_hash <> new.agent_hash OR old.labels <> new.labels BEGIN
    DELETE FROM facets WHERE facet = '' AND value = ''
        AND status = old.status AND started_at = old.started_at AND id = old.id;
    DELETE FROM facets WHERE facet = 'agent' AND value = old.agent_hash
        AND status = old.status AND started_at = old.started_at AND id = old.id;
    DELETE FROM facets WHERE (facet, value, status, started_at, id) IN (
        SELECT 'label:' || key, value, old.status, old.started_at, old.id FROM json_each(old.labels));
    INSERT INTO facets VALUES ('', '', new.status, new.started_at, new.id, new.key);
    INSERT INTO facets VALUES ('agent', new.agent_hash, new.status, new.started_at, new.id, new.key);
    INSERT INTO facets SELECT 'label:' || key, value, new.status, new.started_at, new.id, new.key
        FROM json_each(new.labels);
END;
";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(application: i64, version: i64, tables: i64) -> Result<Verdict, StoreError> {
        Standing { application, version, tables }.verdict(&Place::File("a.db".into()))
    }

    #[test]
    fn an_empty_file_becomes_a_store() {
        assert_eq!(check(0, 0, 0).unwrap(), Verdict::Migrate { from: 0 });
    }

    #[test]
    fn a_store_of_this_version_is_taken_as_it_is() {
        assert_eq!(check(APPLICATION, 1, 12).unwrap(), Verdict::Current);
    }

    #[test]
    fn a_store_of_a_newer_version_is_refused_by_its_number() {
        let error = check(APPLICATION, 7, 12).unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found: 7, supported: 1, .. }), "{error}");
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        for (application, version, tables) in [(0, 0, 1), (0, 3, 0), (7, 1, 2)] {
            let refused = check(application, version, tables);
            assert!(matches!(refused, Err(StoreError::NotADatabase { .. })), "{refused:?}");
        }
    }
}
