//! TOML in, the file's words out, with each tool read as its kind has it.

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use super::{
    AgentFile,
    fault::Fault,
    tools::{CommandTable, LedgerTable, ReadFileTable, ToolTable},
};

/// Reads the text of an agent file.
pub(super) fn parse(text: &str) -> Result<(AgentFile, Vec<ToolTable>), Fault> {
    let mut root = DeTable::parse(text)?;
    let tools = match root.get_mut().remove("tools") {
        None => Vec::new(),
        Some(tools) => match tools.into_inner() {
            DeValue::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| tool(index, item))
                .collect::<Result<_, _>>()?,
            _ => {
                return Err(Fault::at("tools", "expected a list of tables: each tool begins with [[tools]]"));
            }
        },
    };
    Ok((AgentFile::deserialize(Deserializer::from(root))?, tools))
}

/// `kind` is taken out by hand: serde's tagged enums forget where in the file a value stands.
fn tool(index: usize, item: toml::Spanned<DeValue<'_>>) -> Result<ToolTable, Fault> {
    let path = format!("tools.{index}");
    let span = item.span();
    let DeValue::Table(mut table) = item.into_inner() else {
        return Err(Fault::at(&path, "expected a table: each tool begins with [[tools]]"));
    };
    let kind = match table.remove("kind").map(toml::Spanned::into_inner) {
        Some(DeValue::String(kind)) => kind,
        Some(_) => return Err(Fault::at(&format!("{path}.kind"), format!("expected a text: {KINDS}"))),
        None => return Err(Fault::at(&path, format!("it has no `kind`: {KINDS}"))),
    };
    let rest = ValueDeserializer::from(toml::Spanned::new(span, DeValue::Table(table)));
    let read = match kind.as_ref() {
        "read_file" => ReadFileTable::deserialize(rest).map(ToolTable::ReadFile),
        "ledger" => LedgerTable::deserialize(rest).map(ToolTable::Ledger),
        "command" => CommandTable::deserialize(rest).map(ToolTable::Command),
        other => {
            let message = format!("there is no tool of kind {other:?}: {KINDS}");
            return Err(Fault::at(&format!("{path}.kind"), message));
        }
    };
    read.map_err(Fault::from)
}

const KINDS: &str = "the kinds are read_file, ledger and command";
