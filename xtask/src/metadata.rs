//! What cargo says about the workspace, as far as the chores need it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::cargo;

#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A member of the workspace.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    /// Feature to what it switches on: other features, `dep:name`, `name/feature`.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(deserialize_with = "kind")]
    pub(crate) kind: Kind,
    /// Set for members of the workspace.
    pub(crate) path: Option<PathBuf>,
    pub(crate) uses_default_features: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Normal,
    Dev,
    Build,
}

impl Workspace {
    /// Asks cargo; nothing is fetched or built.
    pub(crate) fn read() -> Result<Workspace, String> {
        let mut command = cargo::cargo(["metadata", "--format-version", "1", "--no-deps"]);
        let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata gave something else than expected: {error}"))
    }
}

/// Cargo writes null for a normal dependency.
fn kind<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Kind, D::Error> {
    match Option::<String>::deserialize(input)?.as_deref() {
        None => Ok(Kind::Normal),
        Some("dev") => Ok(Kind::Dev),
        Some("build") => Ok(Kind::Build),
        Some(other) => Err(serde::de::Error::custom(format!("unknown kind of dependency {other:?}"))),
    }
}
