//! The tables `[[tools]]`, one struct a kind, and the tools they make.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use relight::{Effect, Tool, ToolSpec};
use serde::Deserialize;
use serde_json::Value;

use super::{Place, fault::Fault, one_of, schema_file};
use crate::tools::{CommandTool, Ledger, Limits, Program, ReadFile};

/// One tool, as the file has it.
#[derive(Debug)]
pub(super) enum ToolTable {
    ReadFile(ReadFileTable),
    Ledger(LedgerTable),
    Command(CommandTable),
}

/// `kind = "read_file"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileTable {
    #[serde(default = "read_file")]
    name: String,
    description: Option<String>,
    root: PathBuf,
    max_bytes: Option<u64>,
}

/// `kind = "ledger"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerTable {
    #[serde(default = "ledger")]
    name: String,
    description: Option<String>,
    path: PathBuf,
    schema: Option<Value>,
    schema_file: Option<PathBuf>,
}

/// `kind = "command"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    name: String,
    description: String,
    effect: Effect,
    program: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    schema: Option<Value>,
    schema_file: Option<PathBuf>,
    timeout_ms: Option<u64>,
    max_output_bytes: Option<usize>,
    wait_for_earlier_ms: Option<u64>,
    reconcile: Option<ReconcileTable>,
}

/// `reconcile = { program = .., args = [..] }`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReconcileTable {
    program: PathBuf,
    #[serde(default)]
    args: Vec<String>,
}

impl ToolTable {
    pub(super) fn build(self, place: &Place, key_variables: &[String]) -> Result<Arc<dyn Tool>, Fault> {
        match self {
            Self::ReadFile(table) => table.build(place),
            Self::Ledger(table) => table.build(place),
            Self::Command(table) => table.build(place, key_variables),
        }
    }
}

impl ReadFileTable {
    fn build(self, place: &Place) -> Result<Arc<dyn Tool>, Fault> {
        let name = checked_name(self.name)?;
        let root = place.join(&self.root);
        if !root.is_dir() {
            return Err(Fault::at("root", format!("{} is not a folder", self.root.display())));
        }
        let description = self.description.unwrap_or_else(|| READ_FILE.to_owned());
        Ok(Arc::new(ReadFile::new(name, description, root, self.max_bytes)))
    }
}

impl LedgerTable {
    fn build(self, place: &Place) -> Result<Arc<dyn Tool>, Fault> {
        let name = checked_name(self.name)?;
        let description = self.description.unwrap_or_else(|| LEDGER.to_owned());
        let mut spec = ToolSpec::new(name, description, Effect::Write);
        if let Some(schema) = schema(self.schema, self.schema_file, place)? {
            spec = spec.with_schema(schema);
        }
        Ok(Arc::new(Ledger::new(spec, place.join(&self.path))))
    }
}

impl CommandTable {
    fn build(self, place: &Place, key_variables: &[String]) -> Result<Arc<dyn Tool>, Fault> {
        let name = checked_name(self.name)?;
        if self.timeout_ms == Some(0) {
            return Err(Fault::at("timeout_ms", "it is zero, so every call would time out"));
        }
        if self.reconcile.is_some() && self.effect != Effect::Write {
            let message =
                format!("a tool whose effect is `{}` is called again, so nothing is reconciled", self.effect);
            return Err(Fault::at("reconcile", message));
        }
        let mut spec = ToolSpec::new(name, self.description, self.effect);
        if let Some(schema) = schema(self.schema, self.schema_file, place)? {
            spec = spec.with_schema(schema);
        }
        let program = program("program", &self.program, self.args, place)?;
        let reconcile = match self.reconcile {
            Some(table) => Some(program_of_reconcile(table, place)?),
            None => None,
        };
        let mut limits = Limits::default();
        if let Some(timeout) = self.timeout_ms {
            limits.time = Duration::from_millis(timeout);
        }
        if let Some(bytes) = self.max_output_bytes {
            limits.output_bytes = bytes;
        }
        if let Some(wait) = self.wait_for_earlier_ms {
            limits.earlier = Duration::from_millis(wait);
        }
        let tool = CommandTool::new(spec, program, reconcile, place.folder().to_owned(), limits);
        Ok(Arc::new(tool.without_variables(key_variables)))
    }
}

fn program_of_reconcile(table: ReconcileTable, place: &Place) -> Result<Program, Fault> {
    program("reconcile.program", &table.program, table.args, place)
}

/// A path is relative to the agent file; a bare name is looked up in `PATH`.
fn program(field: &str, path: &Path, args: Vec<String>, place: &Place) -> Result<Program, Fault> {
    if path.as_os_str().is_empty() {
        return Err(Fault::at(field, "it is empty"));
    }
    let is_bare = path.components().count() == 1 && path.file_name() == Some(path.as_os_str());
    if is_bare {
        return Ok(Program { path: path.to_owned(), args });
    }
    let full = place.join(path);
    if !full.is_file() {
        return Err(Fault::at(field, format!("there is no program at {}", path.display())));
    }
    Ok(Program { path: full, args })
}

/// A name that every provider takes.
fn checked_name(name: String) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(Fault::at("name", "a tool's name has 1 to 64 letters, digits, `_` and `-`"));
    }
    Ok(name)
}

fn schema(here: Option<Value>, path: Option<PathBuf>, place: &Place) -> Result<Option<Value>, Fault> {
    one_of("schema", here, "schema_file", path, |path| schema_file("schema_file", path, place))
}

fn read_file() -> String {
    "read_file".to_owned()
}

fn ledger() -> String {
    "ledger".to_owned()
}

const READ_FILE: &str = "Reads a text file.";
const LEDGER: &str = "Appends an entry to the ledger.";
