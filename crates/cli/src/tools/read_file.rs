//! `read_file`: lets an agent read text files below one folder, and nothing else.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read as _,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use async_trait::async_trait;
use relight::{Effect, Tool, ToolCall, ToolError, ToolSpec};
use rustix::fs::{FileType, Mode, OFlags};
use serde_json::{Value, json};

/// Reads text files below a folder.
///
/// Paths are followed one step after another from the folder itself, and no step may be a symbolic link: there is no
/// way out by `..`, by an absolute path or by a link, also not by one that is put there while the path is followed.
pub(crate) struct ReadFile {
    spec: ToolSpec,
    root: PathBuf,
    max_bytes: u64,
}

impl ReadFile {
    pub(crate) fn new(name: String, description: String, root: PathBuf, max_bytes: Option<u64>) -> Self {
        let spec = ToolSpec::new(name, description, Effect::Read).with_schema(json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file, relative to the folder of files."}},
            "required": ["path"],
        }));
        Self { spec, root, max_bytes: max_bytes.unwrap_or(MAX_BYTES) }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, ToolError> {
        let path = call.input["path"].as_str().unwrap_or_default().to_owned();
        let (root, max_bytes) = (self.root.clone(), self.max_bytes);
        // A disk may be slow, and others are driven by the same thread.
        let read = tokio::task::spawn_blocking(move || read(&root, &path, max_bytes)).await;
        read.unwrap_or_else(|_| Err(ToolError::new("panicked", "the file could not be read")))
    }
}

fn read(root: &Path, path: &str, max_bytes: u64) -> Result<Value, ToolError> {
    let mut file = File::from(open_below(root, path)?);
    let mut bytes = Vec::new();
    let cannot =
        |error: std::io::Error| ToolError::new("unreadable", format!("{path} cannot be read: {error}"));
    std::io::Read::by_ref(&mut file).take(max_bytes + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("{path} holds more than {max_bytes} bytes, which is as much as may be read");
        return Err(ToolError::new("too_large", message));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Value::String(text)),
        _ => Err(ToolError::new("not_text", format!("{path} is not a text file in UTF-8"))),
    }
}

fn open_below(root: &Path, path: &str) -> Result<OwnedFd, ToolError> {
    let refused = |why: &str| ToolError::new("not_allowed", format!("{path} {why}"));
    let mut steps: Vec<&OsStr> = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(step) => steps.push(step),
            Component::CurDir => {}
            Component::ParentDir => {
                return Err(refused("leads upwards; give a path below the folder of files"));
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(refused("is an absolute path; give one that is relative to the folder of files"));
            }
        }
    }
    let Some((last, folders)) = steps.split_last() else { return Err(refused("names no file")) };
    let failed = |error: rustix::io::Errno| match error {
        rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => {
            ToolError::new("not_found", format!("there is no file {path}"))
        }
        rustix::io::Errno::LOOP => refused("leads over a symbolic link, which is not followed"),
        error => ToolError::new("unreadable", format!("{path} cannot be opened: {error}")),
    };
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(root, folder, Mode::empty()).map_err(failed)?;
    for step in folders {
        at = rustix::fs::openat(&at, *step, folder | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| link_or(&at, step, error))
            .map_err(failed)?;
    }
    // Opening a pipe for reading would wait for its writer.
    let file = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(&at, *last, file, Mode::empty()).map_err(failed)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&opened).map_err(failed)?.st_mode) {
        FileType::RegularFile => Ok(opened),
        FileType::Directory => Err(refused("is a folder")),
        _ => Err(refused("is not a regular file")),
    }
}

/// A link where a folder should be is reported as "not a folder"; the reader shall know what it is.
fn link_or(at: &OwnedFd, step: &OsStr, error: rustix::io::Errno) -> rustix::io::Errno {
    let no_follow = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statat(at, step, no_follow) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => rustix::io::Errno::LOOP,
        _ => error,
    }
}

const MAX_BYTES: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn check(path: &str, expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(root.join("sub/a.txt"), "hello\n").unwrap();
        fs::write(root.join("binary"), b"a\0b").unwrap();
        fs::write(root.join("latin1"), b"\xe4").unwrap();
        fs::write(root.join("large"), "x".repeat(101)).unwrap();
        fs::write(root.join("full"), "x".repeat(100)).unwrap();
        symlink("../secret", root.join("link")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("a.txt", root.join("sub/inner")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
        match (read(&root, path, 100), expected) {
            (Ok(value), Ok(text)) => assert_eq!(value, text, "{path}"),
            (Err(error), Err(code)) => assert_eq!(error.failure().code, code, "{path}: {error}"),
            (found, expected) => panic!("{path}: {found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_file_below_the_root_is_read() {
        check("sub/a.txt", Ok("hello\n"));
        check("./sub//a.txt", Ok("hello\n"));
        check("full", Ok(&"x".repeat(100)));
    }

    #[test]
    fn there_is_no_way_out() {
        for path in ["../secret", "sub/../../secret", "/etc/passwd", "link", "up/secret", "sub/inner"] {
            check(path, Err("not_allowed"));
        }
    }

    #[test]
    fn what_is_no_small_text_is_refused() {
        check("binary", Err("not_text"));
        check("latin1", Err("not_text"));
        check("large", Err("too_large"));
        check("missing", Err("not_found"));
        check("sub/a.txt/b", Err("not_found"));
        check("sub", Err("not_allowed"));
        check("pipe", Err("not_allowed"));
        check("", Err("not_allowed"));
    }
}
