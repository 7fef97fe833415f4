//! Rules about a member's Cargo.toml: what all packages share is inherited from the workspace.

use super::Finding;

/// Every breach in a member's manifest.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut findings = Vec::new();
    for key in INHERITED {
        if !lines.contains(&format!("{key}.workspace = true").as_str()) {
            findings.push(format!("take `{key}` from the workspace: `{key}.workspace = true`"));
        }
    }
    let lints = lines.iter().position(|&line| line == "[lints]");
    if lints.is_none_or(|at| lines.get(at + 1) != Some(&"workspace = true")) {
        findings.push("take the lints from the workspace: `[lints]`, `workspace = true`".to_owned());
    }
    findings.into_iter().map(|message| Finding { path: path.to_owned(), line: None, message }).collect()
}

const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]
name = \"relight-core\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[lints]
workspace = true
";

    #[test]
    fn a_member_inherits_what_all_share() {
        assert_eq!(check("crates/core/Cargo.toml", GOOD), []);
    }

    #[test]
    fn what_is_not_inherited_is_named() {
        let own = GOOD.replace("license.workspace = true", "license = \"MIT\"");
        assert!(check("a/Cargo.toml", &own)[0].message.contains("`license`"));
        let without_lints = GOOD.replace("[lints]\nworkspace = true\n", "");
        assert!(check("a/Cargo.toml", &without_lints)[0].message.contains("[lints]"));
    }
}
