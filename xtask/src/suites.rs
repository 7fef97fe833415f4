//! Reads what `cargo test` prints, and sums up which suites ran and how they ended.

use std::fmt;

/// The suites of one run, in order.
#[derive(Debug, Default)]
pub(crate) struct Suites {
    suites: Vec<Suite>,
}

#[derive(Debug, Default, PartialEq)]
struct Suite {
    name: String,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
    filtered: usize,
}

/// What a run was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Every test of the workspace: if none ran, something is wrong.
    Everything,
    /// Those that the arguments name, which may be none.
    Some,
}

impl Suites {
    /// Takes the next line of output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = suite_name(line) {
            self.suites.push(Suite { name, counts: Counts::default() });
        } else if let Some(counts) = Counts::parse(line) {
            match self.suites.last_mut() {
                // Doc tests of one package report in several parts.
                Some(suite) => suite.counts.add(counts),
                // A quiet cargo names no suites.
                None => self.suites.push(Suite { name: "tests".to_owned(), counts }),
            }
        }
    }

    /// Whether a run that cargo found nothing wrong with is good: nothing may be skipped in silence.
    pub(crate) fn verdict(&self, asked: Asked) -> Result<(), String> {
        let total = self.total();
        if total.ignored > 0 {
            return Err(format!("{} tests were ignored: no test may be skipped", total.ignored));
        }
        if asked == Asked::Everything && total.passed == 0 {
            return Err("no test ran".to_owned());
        }
        Ok(())
    }

    /// What a run has to say that ended in failure.
    pub(crate) fn failure(&self) -> String {
        let failed: Vec<&str> =
            self.suites.iter().filter(|suite| suite.counts.failed > 0).map(|suite| &*suite.name).collect();
        if failed.is_empty() {
            return "cargo test failed; see above".to_owned();
        }
        format!("{} tests failed, in {}", self.total().failed, failed.join(", "))
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for suite in &self.suites {
            total.add(suite.counts);
        }
        total
    }
}

impl fmt::Display for Suites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Suites that ran:")?;
        let ran = |suite: &&Suite| suite.counts.passed + suite.counts.failed + suite.counts.ignored > 0;
        let width = self.suites.iter().filter(ran).map(|suite| suite.name.len()).max().unwrap_or(0);
        for Suite { name, counts } in self.suites.iter().filter(ran) {
            write!(f, "  {name:width$}  {:>4} passed", counts.passed)?;
            if counts.failed > 0 {
                write!(f, ", {} FAILED", counts.failed)?;
            }
            if counts.ignored > 0 {
                write!(f, ", {} IGNORED", counts.ignored)?;
            }
            writeln!(f)?;
        }
        let total = self.total();
        if total.filtered > 0 {
            writeln!(f, "{} tests were left out by the arguments given", total.filtered)?;
        }
        writeln!(f, "{} passed, {} failed", total.passed, total.failed)
    }
}

impl Counts {
    /// Reads `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s`.
    fn parse(line: &str) -> Option<Counts> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            let part = counts.split("; ").find(|part| part.ends_with(word))?;
            part.split(' ').next()?.parse().ok()
        };
        Some(Counts {
            passed: count(" passed")?,
            failed: count(" failed")?,
            ignored: count(" ignored")?,
            filtered: count(" filtered out")?,
        })
    }

    fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.filtered += other.filtered;
    }
}

/// Reads `Running tests/crash.rs (target/debug/deps/crash-1f2e)` and `Doc-tests relight_core`.
fn suite_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} doc tests"));
    }
    let (source, program) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let stem = program.rsplit(['/', '\\']).next()?;
    let name = stem.rsplit_once('-').map_or(stem, |(name, _hash)| name);
    Some(match source.strip_prefix("unittests ") {
        Some(source) => format!("{name} unit tests ({source})"),
        None => source.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Suites {
        let mut suites = Suites::default();
        output.lines().for_each(|line| suites.read(line));
        suites
    }

    const GREEN: &str = "
     Running unittests src/lib.rs (target/debug/deps/relight_core-0a1b2c)

running 2 tests
test state::tests::a_new_run_is_running ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s

     Running tests/crash.rs (target/debug/deps/crash-77)
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests relight_core
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
";

    #[test]
    fn suites_are_listed_with_their_counts_and_empty_ones_left_out() {
        assert_eq!(
            read(GREEN).to_string(),
            "Suites that ran:
  relight_core unit tests (src/lib.rs)     2 passed
  relight_core doc tests                   4 passed
1 tests were left out by the arguments given
6 passed, 0 failed
",
        );
        assert_eq!(read(GREEN).verdict(Asked::Everything), Ok(()));
    }

    #[test]
    fn a_quiet_run_is_still_counted() {
        let quiet: String = GREEN
            .lines()
            .filter(|line| line.starts_with("test result"))
            .map(|l| l.to_owned() + "\n")
            .collect();
        assert!(read(&quiet).to_string().ends_with("6 passed, 0 failed\n"));
    }

    #[test]
    fn a_failed_suite_is_named() {
        let red = GREEN.replace("3 passed; 0 failed", "1 passed; 2 failed");
        assert_eq!(read(&red).failure(), "2 tests failed, in relight_core doc tests");
    }

    #[test]
    fn an_ignored_test_fails_the_run() {
        let ignored = GREEN.replacen("0 ignored", "1 ignored", 1);
        assert!(read(&ignored).verdict(Asked::Everything).is_err());
    }

    #[test]
    fn a_full_run_without_a_test_fails_and_a_narrowed_one_does_not() {
        assert_eq!(read("").verdict(Asked::Everything), Err("no test ran".into()));
        assert_eq!(read("").verdict(Asked::Some), Ok(()));
    }

    #[test]
    fn a_build_that_fails_is_not_taken_for_an_empty_run() {
        assert_eq!(read("error: could not compile").failure(), "cargo test failed; see above");
    }
}
