//! Which package may use which, as `docs/architecture.md` draws it: one-way, from the binary down to `canonical`.

use std::collections::BTreeSet;

use super::Finding;
use crate::metadata::{Dependency, Kind, Package};

/// Every edge between members that is not drawn.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(allowed) = below(&package.name) else {
            findings.push(finding(
                package,
                format!("{} is not in the drawing: add it to {}", package.name, file!()),
            ));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            // Development dependencies are free: no user builds them.
            if dependency.kind == Kind::Dev {
                continue;
            }
            if !allowed.contains(dependency.name.as_str()) {
                findings.push(finding(
                    package,
                    format!(
                        "{} must not use {}: draw the edge in docs/decisions/ first",
                        package.name, dependency.name
                    ),
                ));
            }
            if brings_its_defaults(package, dependency) {
                findings.push(finding(
                    package,
                    format!("{} uses {} without its default features", package.name, dependency.name),
                ));
            }
        }
    }
    findings
}

/// The backends and transports are the user's choice, so what lies between must not switch them on.
fn brings_its_defaults(package: &Package, dependency: &Dependency) -> bool {
    package.name == "relight-runtime"
        && ["relight-store", "relight-llm"].contains(&dependency.name.as_str())
        && dependency.uses_default_features
}

/// All that a package may use: what is drawn right below it, and everything below that.
fn below(name: &str) -> Option<BTreeSet<&'static str>> {
    let direct = |name: &str| DRAWN.iter().find(|(drawn, _)| *drawn == name).map(|(_, below)| *below);
    let mut reached = BTreeSet::new();
    let mut queue = direct(name)?.to_vec();
    while let Some(next) = queue.pop() {
        if reached.insert(next) {
            queue.extend(direct(next).unwrap_or_default());
        }
    }
    Some(reached)
}

fn finding(package: &Package, message: String) -> Finding {
    let path = package.manifest_path.strip_prefix(crate::cargo::root()).unwrap_or(&package.manifest_path);
    Finding { path: path.display().to_string(), line: None, message }
}

const DRAWN: &[(&str, &[&str])] = &[
    ("relight-canonical", &[]),
    ("relight-core", &["relight-canonical"]),
    ("relight-store", &["relight-core"]),
    ("relight-llm", &["relight-canonical"]),
    ("relight-runtime", &["relight-store", "relight-llm"]),
    ("relight", &["relight-runtime"]),
    ("relight-server", &["relight"]),
    ("relight-mcp", &["relight"]),
    // The demo's scripted model comes from the testkit.
    ("relight-cli", &["relight", "relight-server", "relight-mcp", "relight-testkit"]),
    ("relight-testkit", &["relight-runtime"]),
    ("relight-conformance", &["relight-runtime"]),
    ("relight-tests", &["relight-cli", "relight-conformance"]),
    ("xtask", &[]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_edge(from: &str, to: &str, kind: Kind, found: usize) {
        let dependency =
            Dependency { name: to.to_owned(), kind, path: Some(to.into()), uses_default_features: false };
        let package = Package { name: from.to_owned(), dependencies: vec![dependency], ..Package::default() };
        assert_eq!(check(&[package]).len(), found, "{from} -> {to}");
    }

    #[test]
    fn a_package_uses_what_lies_below_it() {
        check_edge("relight-core", "relight-canonical", Kind::Normal, 0);
        check_edge("relight-runtime", "relight-core", Kind::Normal, 0);
        check_edge("relight-cli", "relight-testkit", Kind::Normal, 0);
    }

    #[test]
    fn nothing_uses_what_lies_above_or_beside_it() {
        check_edge("relight-core", "relight-store", Kind::Normal, 1);
        check_edge("relight-llm", "relight-core", Kind::Normal, 1);
        check_edge("relight-store", "relight-llm", Kind::Normal, 1);
        check_edge("relight-runtime", "relight-testkit", Kind::Normal, 1);
        check_edge("relight-cli", "relight-conformance", Kind::Normal, 1);
    }

    #[test]
    fn tests_may_use_anything() {
        check_edge("relight-core", "relight-testkit", Kind::Dev, 0);
        check_edge("relight-core", "relight-testkit", Kind::Build, 1);
    }

    #[test]
    fn a_member_that_is_not_drawn_is_found() {
        let package = Package { name: "relight-extra".to_owned(), ..Package::default() };
        assert_eq!(check(&[package]).len(), 1);
    }

    #[test]
    fn the_runtime_leaves_backends_and_transports_to_its_user() {
        let store = |uses_default_features| Package {
            name: "relight-runtime".to_owned(),
            dependencies: vec![Dependency {
                name: "relight-store".to_owned(),
                kind: Kind::Normal,
                path: Some("crates/store".into()),
                uses_default_features,
            }],
            ..Package::default()
        };
        assert_eq!(check(&[store(true)]).len(), 1);
        assert_eq!(check(&[store(false)]), []);
    }
}
