//! What commands are given in the same way: JSON, labels, and who acts.

use std::{io::Read as _, str::FromStr};

use serde_json::Value;

use crate::failure::Failure;

/// A value that is given as JSON, as `@FILE`, or as `-` for stdin.
pub(crate) fn read_json(option: &str, argument: &str) -> Result<Value, Failure> {
    let (text, whence) = if argument == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| Failure::bad_input(format!("cannot read {option} from stdin: {error}")))?;
        (text, "stdin".to_owned())
    } else if let Some(path) = argument.strip_prefix('@') {
        let cannot = |error| Failure::bad_input(format!("cannot read {option} from {path}: {error}"));
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(cannot)?;
        file.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        (text, path.to_owned())
    } else {
        (argument.to_owned(), option.to_owned())
    };
    if text.len() as u64 > MAX_INPUT_BYTES {
        return Err(Failure::bad_input(format!("{whence} holds more than {MAX_INPUT_BYTES} bytes")));
    }
    serde_json::from_str(&text).map_err(|error| {
        // Only an input can be given as a text of its own.
        let or_text = if option == "--input" { " (`--text` takes one without)" } else { "" };
        Failure::bad_input(format!(
            "{whence} is not JSON: {error}; JSON texts stand in double quotes{or_text}"
        ))
    })
}

/// `NAME=VALUE`.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err("expected NAME=VALUE".to_owned()),
        }
    }
}

/// Who acts on a run from this terminal, as the log will name them.
pub(crate) fn operator() -> String {
    let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}

/// An event holds the input, and is at most this large.
const MAX_INPUT_BYTES: u64 = 16 << 20;
