//! The lock of one call's key: held as long as anything of an attempt at the call may live.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The lock, and the file it is on.
pub(crate) struct KeyLock {
    file: File,
    path: PathBuf,
}

impl KeyLock {
    /// Takes the lock of a key, and waits for whoever holds it.
    ///
    /// # Errors
    ///
    /// What stands in the way, for people: an earlier attempt that still lives, or a folder that cannot be used.
    pub(crate) async fn acquire(key: &str, wait: Duration) -> Result<Self, String> {
        Self::acquire_unless(|_| false, key, wait).await
    }

    /// Takes the lock of a key that an earlier drive may have used, and also waits for processes that no lock tells of.
    ///
    /// # Errors
    ///
    /// As [`KeyLock::acquire`].
    pub(crate) async fn acquire_after_others(key: &str, wait: Duration) -> Result<Self, String> {
        Self::acquire_unless(is_named_by_a_process, key, wait).await
    }

    async fn acquire_unless(
        is_alive: impl Fn(&str) -> bool,
        key: &str,
        wait: Duration,
    ) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("the lock of its key cannot be taken: {error}");
        let folder = folder(&std::env::temp_dir()).map_err(cannot)?;
        let name: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        let path = folder.join(format!("{name}.lock"));
        let began = Instant::now();
        loop {
            match try_acquire(&path).map_err(cannot)? {
                Some(file) if !is_alive(key) => return Ok(Self { file, path }),
                _ if began.elapsed() >= wait => {
                    return Err(format!(
                        "processes of an earlier attempt still run after {} s (they have RELIGHT_IDEMPOTENCY_KEY={key} \
                         in their environment, or hold {})",
                        wait.as_secs_f32(),
                        path.display()
                    ));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file. The lock is free when it is closed by all who inherit it.
    pub(crate) fn into_file(self) -> File {
        self.file
    }
}

/// `None` where somebody holds it.
fn try_acquire(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Whoever held it may have removed the file before it let go; another one may be locked under its name by now.
    let own = file.metadata()?;
    let is_current =
        fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino()));
    Ok(is_current.then_some(file))
}

/// A folder that nobody else can put files into or take them out of.
fn folder(parent: &Path) -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let path = parent.join(format!("relight-{user}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
    let found = fs::symlink_metadata(&path)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        let message = format!("{} is not a folder that this user alone can use; remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(path)
}

/// Whether a process carries the key in its environment: one that closed the inherited lock, or whose lock lies in
/// another temporary folder. Seen on Linux only, and for processes of the same user.
fn is_named_by_a_process(key: &str) -> bool {
    let variable = format!("{KEY_VARIABLE}={key}");
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ids = processes.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    ids.filter_map(|entry| fs::read(entry.path().join("environ")).ok())
        .any(|variables| variables.split(|&byte| byte == 0).any(|one| one == variable.as_bytes()))
}

/// By which a command, and whoever looks for it, knows the call.
pub(crate) const KEY_VARIABLE: &str = "RELIGHT_IDEMPOTENCY_KEY";

const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_lock_that_is_held_is_waited_for_and_named() {
        let key = format!("test{}", std::process::id());
        let held = KeyLock::acquire(&key, Duration::ZERO).await.ok().unwrap();
        let refused = KeyLock::acquire(&key, Duration::ZERO).await.err().unwrap();
        assert!(refused.contains(&key), "{refused}");
        let inherited = held.file.try_clone().unwrap();
        let path = held.path.clone();
        drop(held);
        assert!(KeyLock::acquire(&key, Duration::ZERO).await.is_err(), "it is free while an heir lives");
        drop(inherited);
        assert!(KeyLock::acquire(&key, Duration::ZERO).await.is_ok());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_was_removed_in_between_is_not_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.lock");
        let old = try_acquire(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let new = try_acquire(&path).unwrap().unwrap();
        assert_ne!(old.metadata().unwrap().ino(), new.metadata().unwrap().ino());
    }

    #[test]
    fn a_folder_that_others_can_use_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = folder(parent.path()).unwrap();
        assert!(folder(parent.path()).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(folder(parent.path()).is_err());
    }
}
