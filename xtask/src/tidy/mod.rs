//! `cargo xtask tidy`: the house rules that a compiler does not know.

mod edges;
mod manifest;
mod named;
mod text;

use std::fmt;
use std::path::Path;

use crate::cargo::root;
use crate::metadata::Workspace;

/// Checks the whole tree and says how many files were read.
pub(crate) fn run() -> Result<(), String> {
    let count = check()?;
    println!("{count} files keep the house rules");
    Ok(())
}

/// Reads every file of ours; an error lists each breach with its place.
pub(crate) fn check() -> Result<usize, String> {
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files)?;
    files.sort();

    let packages = Workspace::read()?.packages;
    let members: Vec<&Path> =
        packages.iter().filter_map(|p| p.manifest_path.strip_prefix(&root).ok()).collect();
    let mut findings = edges::check(&packages);
    findings.extend(named::check(&files, |name| root.join(name).exists()));
    for (path, text) in &files {
        findings.extend(text::check(path, text));
        if members.contains(&Path::new(path)) {
            findings.extend(manifest::check(path, text));
        }
    }
    if findings.is_empty() {
        return Ok(files.len());
    }
    Err(findings.iter().map(|finding| format!("error: {finding}")).collect::<Vec<_>>().join("\n"))
}

/// One breach of a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    /// From 1; `None` where the whole file is meant.
    line: Option<usize>,
    /// What is wrong and what to do.
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Gathers the text files below `folder`, with paths relative to `root`.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !OTHERS.contains(&&*name) {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|e| TEXT.iter().any(|text| e == *text)) || name == "run" {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push((relative, text));
        }
    }
    Ok(())
}

/// Folders that hold nothing written by hand.
const OTHERS: &[&str] = &[".git", "target"];

const TEXT: &[&str] = &["html", "md", "rs", "sh", "sql", "toml", "yml"];

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_keeps_the_house_rules() {
        if let Err(findings) = super::check() {
            panic!("{findings}");
        }
    }
}
