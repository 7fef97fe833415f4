//! What is wrong with an agent file, and where: file, line, field.

use std::{ops::Range, path::Path};

use toml::de::{DeTable, DeValue};

/// One thing that is wrong.
#[derive(Debug)]
pub(super) struct Fault {
    place: Place,
    message: String,
}

#[derive(Debug)]
enum Place {
    Anywhere,
    /// A path of keys and indices, such as `tools.0.root`.
    Field(String),
    /// Where the parser stumbled.
    Bytes(Range<usize>),
}

impl Fault {
    /// A fault of the field at a path of keys, separated by dots.
    pub(super) fn at(field: &str, message: impl Into<String>) -> Self {
        Self { place: Place::Field(field.to_owned()), message: message.into() }
    }

    /// A fault that no field has by itself.
    pub(super) fn anywhere(message: impl Into<String>) -> Self {
        Self { place: Place::Anywhere, message: message.into() }
    }

    /// The same with the field's path read from inside another.
    #[must_use]
    pub(super) fn inside(mut self, path: &str) -> Self {
        match &mut self.place {
            Place::Field(field) if field.is_empty() => path.clone_into(field),
            Place::Field(field) => *field = format!("{path}.{field}"),
            Place::Anywhere => self.place = Place::Field(path.to_owned()),
            Place::Bytes(_) => {}
        }
        self
    }

    /// `FILE:LINE: FIELD: MESSAGE`. The text of the file is not quoted: somebody may have put a key into it.
    pub(super) fn within(&self, file: &Path, text: &str) -> String {
        let (line, field) = match &self.place {
            Place::Anywhere => (None, None),
            Place::Field(field) => {
                (span_of(text, field).map(|span| line(text, span.start)), Some(field.clone()))
            }
            // What the file itself lacks stands on no line.
            Place::Bytes(span) if span.start == 0 && self.message.starts_with("missing field") => {
                (None, None)
            }
            // The second of two equal keys is in no table.
            Place::Bytes(span) if self.message == "duplicate key" => {
                (Some(line(text, span.start)), text.get(span.clone()).map(str::to_owned))
            }
            Place::Bytes(span) => (Some(line(text, span.start)), field_at(text, span.start)),
        };
        let mut shown = file.display().to_string();
        if let Some(line) = line {
            shown.push_str(&format!(":{line}"));
        }
        if let Some(field) = field {
            shown.push_str(&format!(": {field}"));
        }
        format!("{shown}: {}", self.message.replace('\n', ", "))
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        let place = error.span().map_or(Place::Anywhere, Place::Bytes);
        Self { place, message: error.message().to_owned() }
    }
}

fn line(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// Where the key at a path stands; of a path that leads nowhere, as far as it leads.
fn span_of(text: &str, path: &str) -> Option<Range<usize>> {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut table = Some(root.into_inner());
    let mut value: Option<DeValue<'_>> = None;
    let mut found = None;
    for step in path.split('.') {
        let next = match (table.take(), value.take()) {
            (Some(mut entries), _) => {
                let key = entries.keys().find(|key| key.as_ref() == step).cloned();
                key.and_then(|key| {
                    let value = entries.remove(&key)?;
                    Some((key.span(), value))
                })
            }
            (None, Some(DeValue::Array(items))) => {
                let item = step.parse().ok().and_then(|index: usize| items.into_iter().nth(index));
                item.map(|item| (item.span(), item))
            }
            _ => None,
        };
        let Some((span, item)) = next else { break };
        found = Some(span);
        match item.into_inner() {
            DeValue::Table(entries) => table = Some(entries),
            other => value = Some(other),
        }
    }
    found
}

/// The path of the field whose key or value stands at a byte.
fn field_at(text: &str, byte: usize) -> Option<String> {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut path = Vec::new();
    in_table(root.get_ref(), byte, &mut path);
    (!path.is_empty()).then(|| path.join("."))
}

fn in_table(table: &DeTable<'_>, byte: usize, path: &mut Vec<String>) -> bool {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        // The values of a table by headers may stand far from its key.
        if in_value(value.get_ref(), byte, path) || holds(&key.span(), byte) || holds(&value.span(), byte) {
            return true;
        }
        path.pop();
    }
    false
}

fn in_value(value: &DeValue<'_>, byte: usize, path: &mut Vec<String>) -> bool {
    match value {
        DeValue::Table(table) => in_table(table, byte, path),
        DeValue::Array(items) => items.iter().enumerate().any(|(index, item)| {
            path.push(index.to_string());
            let found = in_value(item.get_ref(), byte, path) || holds(&item.span(), byte);
            if !found {
                path.pop();
            }
            found
        }),
        _ => false,
    }
}

fn holds(span: &Range<usize>, byte: usize) -> bool {
    span.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = 1\n[b]\nc = 'x'\n[[d]]\ne = 2\n[[d]]\n\ne = {f = 3}\n";

    #[test]
    fn a_path_leads_to_its_line() {
        let line_of = |path| span_of(TEXT, path).map(|span| line(TEXT, span.start));
        assert_eq!(line_of("a"), Some(1));
        assert_eq!(line_of("b.c"), Some(3));
        assert_eq!(line_of("d.1.e.f"), Some(8));
        assert_eq!(line_of("d.1.missing"), line_of("d.1"));
        assert_eq!(line_of("nowhere"), None);
    }

    #[test]
    fn a_byte_leads_to_its_field() {
        let field = |part: &str| field_at(TEXT, TEXT.find(part).unwrap());
        assert_eq!(field("1").as_deref(), Some("a"));
        assert_eq!(field("'x'").as_deref(), Some("b.c"));
        assert_eq!(field("f = 3").as_deref(), Some("d.1.e.f"));
    }
}
