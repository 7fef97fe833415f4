//! This program as one that it can start again: for the guard beside a tool, and for the demo's drives.

use std::{io, path::PathBuf};

/// A path that starts the very binary that runs now.
pub(crate) fn path() -> io::Result<PathBuf> {
    // Linux keeps the file alive behind this name even where it was replaced or deleted since, as an upgrade does;
    // `current_exe` would name a file that is gone, or another version.
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}
