//! Rules about the text of one file.
//!
//! Where a rule makes a passage worse, `tidy: allow(RULE) because ...` in a comment on that line or the one above
//! lifts it there.

use super::Finding;

/// Every breach in a file, from its path (relative to the root) and its text.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rust = path.ends_with(".rs");
    let finding = |line: usize, message: String| Finding { path: path.to_owned(), line: Some(line), message };

    if rust && !text.starts_with("//!") {
        findings
            .push(finding(1, "says nothing about itself: start it with `//!` and one sentence".to_owned()));
    }
    if rust && text.lines().count() > LONGEST && !text.lines().take(HEAD).any(explains_length) {
        let message = format!(
            "has {} lines, more than {LONGEST}: find the second idea in it, or say `// {LONG} ...` in its first {HEAD} lines",
            text.lines().count()
        );
        findings.push(Finding { path: path.to_owned(), line: None, message });
    }

    let mut previous = "";
    let mut in_tests = path.starts_with("tests/") || path.contains("/tests/");
    for (index, line) in text.lines().enumerate() {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        for rule in RULES {
            let place = Place { path, rust, in_tests };
            if !(rule.applies)(place) || allows(line, rule.name) || allows(previous, rule.name) {
                continue;
            }
            if let Some(found) = (rule.find)(line) {
                findings.push(finding(index + 1, format!("{found:?}: {} [{}]", rule.advice, rule.name)));
            }
        }
        previous = line;
    }
    findings
}

/// Where a line stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    rust: bool,
    in_tests: bool,
}

/// A rule about a single line.
struct Rule {
    name: &'static str,
    advice: &'static str,
    applies: fn(Place<'_>) -> bool,
    /// The part of the line that breaks the rule.
    find: fn(&str) -> Option<&str>,
}

// The words that rules look for are put together here, else this file would break its own rules.
const RULES: &[Rule] = &[
    Rule {
        name: "machine-path",
        advice: "a path of somebody's machine; make it relative or take it from the environment",
        applies: |_| true,
        find: machine_path,
    },
    Rule {
        name: "unfinished",
        advice: "name the issue that will do it, as in `(#12)`, or do it now",
        applies: |place| !place.path.ends_with(".md"),
        find: unfinished,
    },
    Rule {
        name: "ignored",
        advice: "no test is skipped; make it run, or delete it",
        applies: |place| place.rust,
        find: |line| word(line, concat!("#[", "ignore")).or_else(|| word(line, concat!("```", "ignore"))),
    },
    Rule {
        name: "sleep",
        advice: "tests wait for what they observe, not for time to pass",
        applies: |place| place.rust && place.in_tests,
        find: sleep,
    },
    Rule {
        name: "pure",
        advice: "this crate is pure: take it as an argument",
        applies: |place| !place.in_tests && PURE.iter().any(|folder| place.path.starts_with(folder)),
        find: |line| {
            if line.trim_start().starts_with("//") {
                None
            } else {
                IMPURE.iter().find_map(|&w| word(line, w))
            }
        },
    },
];

fn machine_path(line: &str) -> Option<&str> {
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")]
        .into_iter()
        .find_map(|folder| line.match_indices(folder).find(|(at, _)| starts_path(&line[..*at])))
        .map(|(_, folder)| folder)
}

/// Not within a longer path or a URL.
fn starts_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-~}/*".contains(c))
}

fn unfinished(line: &str) -> Option<&str> {
    let found = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")]
        .into_iter()
        .find_map(|w| word(line, w))?;
    let names_an_issue =
        line.match_indices('#').any(|(at, _)| line[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
    (!names_an_issue).then_some(found)
}

/// A call of `sleep`, unless it is a method: a run's own `ctx.sleep(..)` is no waiting.
fn sleep(line: &str) -> Option<&str> {
    let call = concat!("sle", "ep(");
    line.match_indices(call).map(|(at, found)| (&line[..at], found)).find_map(|(before, found)| {
        let own = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
            || before.ends_with("fn ");
        (!own).then_some(found)
    })
}

/// Finds `wanted` where it is no part of a longer word.
fn word<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    let (opens, closes) = (wanted.starts_with(letter), wanted.ends_with(letter));
    line.match_indices(wanted).map(|(at, found)| (&line[..at], found, &line[at + found.len()..])).find_map(
        |(before, found, after)| {
            let longer = (opens && before.ends_with(letter)) || (closes && after.starts_with(letter));
            (!longer).then_some(found)
        },
    )
}

fn allows(line: &str, rule: &str) -> bool {
    line.split_once("tidy: allow(")
        .and_then(|(_, rest)| rest.split_once(") because "))
        .is_some_and(|(named, reason)| named == rule && !reason.trim().is_empty())
}

fn explains_length(line: &str) -> bool {
    line.split_once(LONG).is_some_and(|(_, reason)| !reason.trim().is_empty())
}

const LONGEST: usize = 600;
const HEAD: usize = 20;
const LONG: &str = "tidy: long because";

/// Folders whose code may use no clock, no randomness, no async and no outside world.
const PURE: &[&str] = &["crates/canonical/src/", "crates/core/src/"];

const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "Uuid::new_v4",
    "Uuid::now_v7",
    "async fn",
    "tokio",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(path: &str, line: &str, rule: Option<&str>) {
        let text = format!("//! A file.\n\n{line}\n");
        let found = check(path, &text);
        match rule {
            None => assert_eq!(found, [], "{line}"),
            Some(rule) => {
                assert_eq!(found.len(), 1, "{line}: {found:?}");
                assert!(found[0].message.ends_with(&format!("[{rule}]")), "{found:?}");
                assert_eq!(found[0].line, Some(3));
            }
        }
    }

    #[test]
    fn a_file_starts_by_saying_what_it_is() {
        assert_eq!(check("a.rs", "//! It is.\n"), []);
        assert_eq!(check("a.rs", "use std::fmt;\n").len(), 1);
        assert_eq!(check("a.md", "# It is\n"), []);
    }

    #[test]
    fn a_long_file_gives_its_reason() {
        let long = "//! It is.\n".to_owned() + &"\n".repeat(600);
        assert_eq!(check("a.rs", &long).len(), 1);
        let explained = long.replacen('\n', "\n// tidy: long because it is one table\n", 1);
        assert_eq!(check("a.rs", &explained), []);
    }

    #[test]
    fn a_path_of_a_machine_is_found_and_one_in_a_url_is_not() {
        check_line("a.rs", concat!("let path = \"/ho", "me/me/relight.db\";"), Some("machine-path"));
        check_line("a.md", concat!("cd /wo", "rk/main"), Some("machine-path"));
        check_line("a.rs", concat!("// https://example.com/ho", "me/page"), None);
        check_line("a.rs", concat!("let below = root.join(\"a/ro", "ot/b\");"), None);
    }

    #[test]
    fn what_is_left_to_do_names_its_issue() {
        check_line("a.rs", concat!("// TO", "DO: later"), Some("unfinished"));
        check_line("a.rs", concat!("// TO", "DO(#12): later"), None);
        check_line("a.rs", concat!("let MAS", "TODON = 1;"), None);
    }

    #[test]
    fn no_test_is_ignored() {
        check_line("a.rs", concat!("#[", "ignore]"), Some("ignored"));
        check_line("a.rs", concat!("/// ```", "ignore"), Some("ignored"));
    }

    #[test]
    fn tests_do_not_sleep() {
        let call = concat!("tokio::time::sle", "ep(one_second).await;");
        check_line("crates/store/tests/append.rs", call, Some("sleep"));
        check_line("crates/store/src/lib.rs", call, None);
        let in_module = format!("//! A file.\n#[cfg(test)]\nmod tests {{\n{call}\n}}\n");
        assert_eq!(check("crates/store/src/lib.rs", &in_module).len(), 1);
        check_line("tests/tests/timers.rs", concat!("ctx.sle", "ep(day).await?;"), None);
    }

    #[test]
    fn pure_crates_reach_for_nothing_outside() {
        check_line("crates/core/src/state.rs", "let now = Timestamp::now();", Some("pure"));
        check_line("crates/core/src/state.rs", "/// Unlike `std::fs`, say.", None);
        check_line("crates/store/src/lib.rs", "use std::fs;", None);
    }

    #[test]
    fn a_rule_is_lifted_with_a_reason_only() {
        let call = concat!("std::thread::sle", "ep(tick);");
        let lifted = format!("// tidy: allow(sleep) because the clock is what is tested\n{call}");
        check_line("tests/a.rs", &lifted, None);
        assert_eq!(check("tests/a.rs", &format!("//! A.\n// tidy: allow(sleep) because \n{call}")).len(), 1);
    }
}
