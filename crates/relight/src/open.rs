//! Opens a store by its address, so that a program need not know which backend it runs on.

use std::{path::Path, sync::Arc};

use relight_store::{EventStore, MemoryStore, StoreError};

/// Opens the store at an address, and makes it where there is none.
///
/// | address | store |
/// |---|---|
/// | `sqlite:PATH`, or a path alone | a file; many processes may share it (feature `sqlite`) |
/// | `memory:` | in memory, gone with the process |
///
/// # Errors
///
/// [`StoreError::CannotOpen`] for an address of no known kind, and whatever the backend has to say, naming the file.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("relight.db");
/// # let path = path.display();
/// let store = relight::open(&format!("sqlite:{path}")).await?;
/// assert!(store.list_runs(&Default::default()).await?.items.is_empty());
/// # Ok(())
/// # }
/// ```
pub async fn open(address: &str) -> Result<Arc<dyn EventStore>, StoreError> {
    match Address::read(address)? {
        Address::Memory => Ok(Arc::new(MemoryStore::new())),
        Address::File(path) => open_file(path).await,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Address<'a> {
    Memory,
    File(&'a Path),
}

impl<'a> Address<'a> {
    fn read(address: &'a str) -> Result<Self, StoreError> {
        let cannot = |shown: &str, why: &str| {
            Err(StoreError::CannotOpen { path: shown.into(), why: format!("{why}: {KNOWN}") })
        };
        if address == "memory:" {
            return Ok(Self::Memory);
        }
        let path = match address.strip_prefix("sqlite:") {
            Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
            None => match address.split_once("://") {
                // What follows may hold a password.
                Some((scheme, _)) => {
                    return cannot(&format!("{scheme}://…"), "there is no such kind of store");
                }
                None => address,
            },
        };
        if path.is_empty() {
            return cannot(&format!("{address:?}"), "it names no file");
        }
        Ok(Self::File(Path::new(path)))
    }
}

#[cfg(feature = "sqlite")]
async fn open_file(path: &Path) -> Result<Arc<dyn EventStore>, StoreError> {
    Ok(Arc::new(relight_store::SqliteStore::open(path).await?))
}

#[cfg(not(feature = "sqlite"))]
async fn open_file(path: &Path) -> Result<Arc<dyn EventStore>, StoreError> {
    let why = "this program was built without the feature `sqlite` of Relight".to_owned();
    Err(StoreError::CannotOpen { path: path.to_owned(), why })
}

const KNOWN: &str = "an address is `sqlite:PATH`, a path, or `memory:`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_alone_is_a_file_like_one_behind_sqlite() {
        for (address, path) in [
            ("relight.db", "relight.db"),
            ("sqlite:relight.db", "relight.db"),
            ("sqlite:/var/lib/relight.db", "/var/lib/relight.db"),
            ("sqlite:///var/lib/relight.db", "/var/lib/relight.db"),
            ("with:colon.db", "with:colon.db"),
        ] {
            assert_eq!(Address::read(address).unwrap(), Address::File(Path::new(path)), "{address}");
        }
        assert_eq!(Address::read("memory:").unwrap(), Address::Memory);
    }

    #[test]
    fn an_address_of_no_known_kind_is_refused_without_its_password() {
        let error = Address::read("postgres://relight:hunter2@host/db").unwrap_err().to_string();
        assert!(error.contains("postgres://…") && error.contains("sqlite:PATH"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        assert!(Address::read("").is_err() && Address::read("sqlite:").is_err());
    }
}
