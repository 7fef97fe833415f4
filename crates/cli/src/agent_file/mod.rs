//! Agent files: TOML that says which model, which tools, and what a run may spend.
//!
//! Every path in one is relative to the file itself, so that it means the same from any folder. Nothing is taken from
//! the environment but the key, by the name that the file gives.

mod fault;
mod parse;
mod provider;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use relight::{Agent, Budget};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use fault::Fault;

/// Reads an agent file and puts its agent together; `base_url` stands in for the file's own.
///
/// # Errors
///
/// One line that names the file, the line and the field.
pub(crate) fn load(path: &Path, base_url: Option<&str>) -> Result<Agent, Failure> {
    let text = read_limited(path).map_err(|error| {
        Failure::bad_input(format!("cannot read the agent file {}: {error}", path.display()))
    })?;
    let place = Place::of(path)?;
    build(&text, &place, base_url).map_err(|fault| Failure::bad_input(fault.within(path, &text)))
}

/// The file's own words, but for its tools, which are read kind by kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    model: String,
    max_tokens: Option<u64>,
    system: Option<String>,
    system_file: Option<PathBuf>,
    output_schema: Option<Value>,
    output_schema_file: Option<PathBuf>,
    #[serde(default)]
    provider: provider::Settings,
    #[serde(default)]
    budgets: Budgets,
    /// Read by themselves before; here so that the list of known fields, in the error about an unknown one, is whole.
    #[serde(default, rename = "tools")]
    _tools: serde::de::IgnoredAny,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budgets {
    steps: Option<u64>,
    tokens: Option<u64>,
}

/// The folder of an agent file, absolute: tools may run while the process stands elsewhere.
struct Place(PathBuf);

impl Place {
    fn of(file: &Path) -> Result<Self, Failure> {
        let file = std::path::absolute(file)
            .map_err(|error| Failure::bad_input(format!("cannot find {}: {error}", file.display())))?;
        Ok(Self(file.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)))
    }

    fn folder(&self) -> &Path {
        &self.0
    }

    fn join(&self, path: &Path) -> PathBuf {
        self.0.join(path)
    }

    /// The text of a file that the field `field` names.
    fn read(&self, field: &str, path: &Path) -> Result<String, Fault> {
        read_limited(&self.join(path))
            .map_err(|error| Fault::at(field, format!("cannot read {}: {error}", path.display())))
    }
}

fn build(text: &str, place: &Place, base_url: Option<&str>) -> Result<Agent, Fault> {
    let (file, tools) = parse::parse(text)?;
    let provider = file.provider.connect(base_url)?;
    let mut agent = Agent::builder()
        .provider(Arc::new(provider.client))
        .model(&file.model)
        .budget(Budget { steps: file.budgets.steps, tokens: file.budgets.tokens });
    if file.model.is_empty() {
        return Err(Fault::at("model", "it is empty"));
    }
    match file.max_tokens {
        Some(0) => return Err(Fault::at("max_tokens", "it is zero, so no answer could be given")),
        Some(max_tokens) => agent = agent.max_tokens(max_tokens),
        None => {}
    }
    let system = one_of("system", file.system, "system_file", file.system_file, |path| {
        place.read("system_file", path)
    })?;
    if let Some(system) = system {
        agent = agent.system(system);
    }
    let schema =
        one_of("output_schema", file.output_schema, "output_schema_file", file.output_schema_file, |path| {
            schema_file("output_schema_file", path, place)
        })?;
    if let Some(schema) = schema {
        agent = agent.output_schema(schema);
    }
    for (index, tool) in tools.into_iter().enumerate() {
        let tool = tool
            .build(place, &provider.key_variables)
            .map_err(|fault| fault.inside(&format!("tools.{index}")))?;
        agent = agent.tool(tool);
    }
    agent.build().map_err(|error| Fault::anywhere(error.to_string()))
}

/// A value that is given in the file or in a file of its own, but not in both.
fn one_of<T>(
    here: &str,
    value: Option<T>,
    there: &str,
    path: Option<PathBuf>,
    read: impl FnOnce(&Path) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    match (value, path) {
        (Some(_), Some(_)) => Err(Fault::at(there, format!("{here} is given, too; give one of them"))),
        (Some(value), None) => Ok(Some(value)),
        (None, Some(path)) => read(&path).map(Some),
        (None, None) => Ok(None),
    }
}

fn schema_file(field: &str, path: &Path, place: &Place) -> Result<Value, Fault> {
    serde_json::from_str(&place.read(field, path)?)
        .map_err(|error| Fault::at(field, format!("{} is not JSON: {error}", path.display())))
}

fn read_limited(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read as _};
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("it holds more than {MAX_FILE_BYTES} bytes"),
        ));
    }
    Ok(text)
}

/// What an agent file, a prompt or a schema may hold.
const MAX_FILE_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> Result<Agent, String> {
        let place = Place(std::env::temp_dir());
        let text = format!("{text}\n[provider]\nbase_url = \"http://127.0.0.1:1\"\n");
        build(&text, &place, None).map_err(|fault| fault.within(Path::new("a.toml"), &text))
    }

    #[track_caller]
    fn check(text: &str, error: &str) {
        let found = agent(text).unwrap_err();
        assert!(found.contains(error), "{found}");
        assert!(!found.contains('\n'), "{found}");
    }

    #[test]
    fn a_model_is_enough() {
        agent("model = 'm'").unwrap();
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_field() {
        check("model = 'm'\nmax_tokens = 'ten'", "a.toml:2: max_tokens: invalid type: string");
        check(
            "model = 'm'\n\ntemprature = 1",
            "a.toml:3: temprature: unknown field `temprature`, expected one of",
        );
        check("model = 'm'\ntool = 1", "`tools`");
        check(
            "model = 'm'\n[budgets]\nstep = 1",
            "a.toml:3: budgets.step: unknown field `step`, expected `steps` or",
        );
        check("model = 'm'\n[[tools]]\nkind = 'read_file'\nroot = 7", "a.toml:4: tools.0.root: invalid type");
        check(
            "model = 'm'\n[[tools]]\nkind = 'read_flie'\nroot = 'x'",
            "a.toml:3: tools.0.kind: there is no",
        );
        check("model = 'm'\n[[tools]]\nroot = 'x'", "a.toml:2: tools.0: it has no `kind`");
        check("max_tokens = 5", "a.toml: missing field `model`");
        check("model = ", "a.toml:1: ");
        check("model = 'm'\nmodel = 'n'", "a.toml:2: model: duplicate key");
    }

    #[test]
    fn what_is_well_formed_and_cannot_be_is_named_too() {
        check("model = ''", "a.toml:1: model: it is empty");
        check("model = 'm'\nmax_tokens = 0", "a.toml:2: max_tokens: it is zero");
        check("system = 'a'\nmodel = 'm'\nsystem_file = 'b'", "a.toml:3: system_file: system is given, too");
        check("model = 'm'\nsystem_file = 'not-there.md'", "a.toml:2: system_file: cannot read not-there.md");
        check("model = 'm'\noutput_schema = {type = 7}", "output schema: not a JSON Schema");
        let twice = "[[tools]]\nkind = 'read_file'\nroot = '.'\n";
        check(&format!("model = 'm'\n{twice}{twice}"), "it has two tools named read_file");
    }

    #[test]
    fn the_agent_files_that_pages_show_are_good_ones() {
        let pages = [include_str!("../../agents/README.md"), include_str!("../../../../README.md")];
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("invoices")).unwrap();
        for program in ["pay.sh", "was-it-paid.sh"] {
            fs::write(folder.path().join(program), "").unwrap();
        }
        let blocks_of = |page: &'static str| page.split("```toml\n").skip(1);
        let blocks: Vec<&str> =
            pages.into_iter().flat_map(blocks_of).map(|block| block.split("```").next().unwrap()).collect();
        assert_eq!(blocks.len(), 7);
        for block in blocks {
            let head = if block.contains("model =") { "" } else { "model = 'm'\n" };
            // Any variable that is set will do for a key.
            let text = format!("{head}{block}").replace("ANTHROPIC_API_KEY", "PATH");
            let place = Place(folder.path().to_owned());
            build(&text, &place, Some("http://127.0.0.1:1"))
                .map_err(|fault| fault.within(Path::new("README.md"), &text))
                .unwrap();
        }
    }

    #[test]
    fn the_same_file_is_the_same_agent_from_any_folder() {
        let text = "model = 'm'\n[[tools]]\nkind = 'read_file'\nroot = '.'\n[provider]\nbase_url = 'http://127.0.0.1:1'";
        let hash = |folder: &str| build(text, &Place(PathBuf::from(folder)), None).unwrap().hash();
        assert_eq!(hash("/tmp"), hash("/"));
    }
}
