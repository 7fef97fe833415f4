//! What pages name must exist: the tests that show a guarantee, and the files where things are.

use std::collections::BTreeSet;

use super::Finding;

/// Checks the pages against the code that they stand beside.
pub(super) fn check(files: &[(String, String)], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let code = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let functions: BTreeSet<&str> = code.flat_map(|(_, text)| text.lines()).filter_map(function).collect();
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (number, line) in text.lines().enumerate() {
            for name in line.split('`').skip(1).step_by(2) {
                let message = if is_test(name) && !functions.contains(name) {
                    format!("there is no test {name}; name the one that shows it")
                } else if is_place(name) && !exists(name) {
                    format!("there is no {name}; say where it is now")
                } else {
                    continue;
                };
                findings.push(Finding { path: path.clone(), line: Some(number + 1), message });
            }
        }
    }
    findings
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let begins = before.split_whitespace().all(|word| ["pub", "async", "const"].contains(&word));
    begins.then(|| after.split(['(', '<']).next().unwrap_or_default())
}

/// Tests are named after a behaviour, in a whole sentence.
fn is_test(name: &str) -> bool {
    name.matches('_').count() >= 4
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn is_place(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c));
    plain && ["crates/", "tests/", "xtask/", "docs/"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_page(page: &str, found: usize) {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let code = "#[test]\n    async fn a_lost_write_is_found_again() {}";
        let files = [file("crates/core/src/lib.rs", code), file("README.md", page)];
        assert_eq!(
            check(&files, |name| name.starts_with("crates/core/") && !name.ends_with("gone.rs")).len(),
            found,
            "{page}"
        );
    }

    #[test]
    fn a_test_that_a_page_names_must_exist() {
        check_page("shown by `a_lost_write_is_found_again`", 0);
        check_page("shown by `a_lost_write_is_found_by_luck`", 1);
        check_page("the option `max_tokens` and `a_b`", 0);
    }

    #[test]
    fn a_place_that_a_page_names_must_exist() {
        check_page("in `crates/core/src/lib.rs`, below `crates/core/`", 0);
        check_page("in `crates/core/src/gone.rs`", 1);
    }
}
