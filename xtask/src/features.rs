//! Which feature sets of a package are checked: none, the default ones, each alone, all.

use std::collections::{BTreeMap, BTreeSet};

/// One way to build a package.
#[derive(Debug, PartialEq)]
pub(crate) struct FeatureSet {
    /// For the reader: `default features`.
    pub(crate) label: String,
    /// For cargo: `--no-default-features --features sqlite`.
    pub(crate) args: Vec<String>,
}

/// The sets that differ from each other; a package without features has one, the default.
pub(crate) fn sets(features: &BTreeMap<String, Vec<String>>) -> Vec<FeatureSet> {
    let set = |label: &str, args: &[&str]| FeatureSet {
        label: label.to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
    };
    let named: Vec<&str> = features.keys().map(String::as_str).filter(|&name| name != "default").collect();
    let mut candidates = vec![
        (enabled(features, &["default"]), set("default features", &[])),
        (enabled(features, &[]), set("no default features", &["--no-default-features"])),
        (enabled(features, &named), set("all features", &["--all-features"])),
    ];
    for name in &named {
        candidates.push((
            enabled(features, &[name]),
            set(&format!("only {name}"), &["--no-default-features", "--features", name]),
        ));
    }
    let mut seen = BTreeSet::new();
    candidates.retain(|(enabled, _)| seen.insert(enabled.clone()));
    candidates.into_iter().map(|(_, set)| set).collect()
}

/// Every feature that is on when `chosen` are, `default` itself left out.
fn enabled(features: &BTreeMap<String, Vec<String>>, chosen: &[&str]) -> BTreeSet<String> {
    let mut on = BTreeSet::new();
    let mut queue: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
    while let Some(name) = queue.pop() {
        // `dep:name` and `name/feature` are no features of this package.
        let Some(implied) = features.get(&name) else { continue };
        if name == "default" || on.insert(name) {
            queue.extend(implied.iter().cloned());
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(features: &[(&str, &[&str])]) -> Vec<String> {
        let features = features
            .iter()
            .map(|(name, implied)| (name.to_string(), implied.iter().map(|s| s.to_string()).collect()))
            .collect();
        sets(&features).into_iter().map(|set| set.label).collect()
    }

    #[test]
    fn a_package_without_features_is_checked_once() {
        assert_eq!(labels(&[]), ["default features"]);
    }

    #[test]
    fn sets_that_are_the_same_are_checked_once() {
        let one = [("default", &["sqlite"][..]), ("sqlite", &["dep:sqlx"][..])];
        assert_eq!(labels(&one), ["default features", "no default features"]);
    }

    #[test]
    fn each_feature_is_also_checked_alone() {
        let three = [("default", &["http"][..]), ("http", &[][..]), ("ws", &["http", "dep:tungstenite"][..])];
        assert_eq!(labels(&three), ["default features", "no default features", "all features"]);
        let apart = [("default", &["http"][..]), ("http", &[][..]), ("ws", &[][..])];
        assert_eq!(labels(&apart), ["default features", "no default features", "all features", "only ws"]);
    }
}
