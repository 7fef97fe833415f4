//! What SQLite reports, as what the caller can do about it.

use std::{fs, io, path::Path, time::Duration};

use rustix::fs::{Access, access};

use super::connect::Place;
use crate::StoreError;

/// The kinds of SQLite's errors that somebody treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Busy,
    ReadOnly,
    Full,
    Io,
    CannotOpen,
    NotADatabase,
    Damaged,
    Constraint,
    Other,
}

impl Fault {
    /// From the [result codes](https://www.sqlite.org/rescode.html); the lowest byte of an extended code is its
    /// primary one.
    pub(super) fn of(error: &sqlx::Error) -> Self {
        let code = match error {
            sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<u32>().ok()),
            _ => None,
        };
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => Self::Busy,
            Some(8) => Self::ReadOnly,
            Some(10) => Self::Io,
            Some(11) => Self::Damaged,
            Some(13) => Self::Full,
            Some(14) => Self::CannotOpen,
            Some(19) => Self::Constraint,
            Some(26) => Self::NotADatabase,
            _ => Self::Other,
        }
    }
}

/// Says it in the store's own words; `waited` is how long the operation was tried.
pub(super) fn map(error: &sqlx::Error, place: &Place, waited: Duration) -> StoreError {
    let path = place.path();
    let why = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    match Fault::of(error) {
        Fault::Busy => StoreError::Busy { path, waited },
        Fault::ReadOnly => StoreError::ReadOnly { path, why },
        Fault::Full => StoreError::Full { why: full_by(&path, why), path },
        Fault::Io => match no_room(&path) {
            Some(why) => StoreError::Full { path, why },
            None => backend(why),
        },
        Fault::CannotOpen => StoreError::CannotOpen { why: cannot_open(&path, why), path },
        Fault::NotADatabase => StoreError::NotADatabase { path, why: "a file of another kind".to_owned() },
        Fault::Damaged => StoreError::Damaged { path, why },
        Fault::Constraint | Fault::Other => match error {
            sqlx::Error::Io(error) => StoreError::CannotOpen { path, why: error.to_string() },
            _ => backend(why),
        },
    }
}

#[derive(Debug, thiserror::Error)]
#[error("SQLite: {0}")]
struct SqliteFailed(String);

fn backend(why: String) -> StoreError {
    StoreError::backend(SqliteFailed(why))
}

/// SQLite says “full” for the disk and for its own limit on pages.
fn full_by(path: &Path, why: String) -> String {
    no_room(path).unwrap_or(why)
}

/// SQLite reports a file that may not grow as a failed write, without the reason; so it is looked up.
fn no_room(path: &Path) -> Option<String> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent()?;
    if rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM) {
        return Some(format!("the disk of {} is full", folder.display()));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current?;
    let wal = path.with_file_name(format!("{}-wal", path.file_name()?.display()));
    let largest = [path, &wal].into_iter().filter_map(|file| Some(fs::metadata(file).ok()?.len())).max()?;
    (largest.saturating_add(ROOM) > limit)
        .then(|| format!("this process may write files of at most {limit} bytes (`ulimit -f`)"))
}

fn cannot_open(path: &Path, why: String) -> String {
    if path.is_dir() {
        return "it is a folder".to_owned();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return format!("there is no folder {}", folder.display());
    }
    match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match access(folder, Access::WRITE_OK) {
            Ok(()) => "there is no such file".to_owned(),
            Err(_) => format!("there is no such file, and this user may make none in {}", folder.display()),
        },
        Err(error) => error.to_string(),
        Ok(_) => why,
    }
}

/// Less than this is none: SQLite writes several pages at a time.
const ROOM: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use sqlx::{Connection, SqliteConnection, raw_sql};

    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_told_from_a_folder_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| cannot_open(path, "SQLite says no".to_owned());
        assert!(said(&folder.path().join("none/a.db")).starts_with("there is no folder "));
        assert_eq!(said(&folder.path().join("a.db")), "there is no such file");
        assert_eq!(said(Path::new("a-file-that-nobody-has.db")), "there is no such file");
        assert_eq!(said(folder.path()), "it is a folder");
    }

    #[tokio::test]
    async fn errors_are_known_by_their_primary_code() {
        let mut connection = SqliteConnection::connect(":memory:").await.unwrap();
        raw_sql("CREATE TABLE a (b UNIQUE); INSERT INTO a VALUES (1)")
            .execute(&mut connection)
            .await
            .unwrap();
        let error = raw_sql("INSERT INTO a VALUES (1)").execute(&mut connection).await.unwrap_err();
        assert_eq!(Fault::of(&error), Fault::Constraint, "{error}");
        let error = raw_sql("no sql").execute(&mut connection).await.unwrap_err();
        assert_eq!(Fault::of(&error), Fault::Other, "{error}");
        assert_eq!(Fault::of(&sqlx::Error::WorkerCrashed), Fault::Other);
    }

    #[test]
    fn a_disk_with_room_is_not_called_full() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(no_room(&folder.path().join("a.db")), None);
    }
}
