//! One line per step with the time it took, and every failure shown in full at the end.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Runs steps one after another and remembers which of them failed.
#[derive(Debug)]
pub(crate) struct Steps {
    started: Instant,
    done: usize,
    failed: Vec<Failure>,
}

/// How a step ended that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    /// Passed, but with something that the reader must know.
    Announce(String),
}

#[derive(Debug)]
struct Failure {
    step: String,
    output: String,
}

impl Steps {
    pub(crate) fn start() -> Steps {
        Steps { started: Instant::now(), done: 0, failed: Vec::new() }
    }

    /// Runs one step; a failure is printed at once, and the next steps still run.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<Outcome, String>) {
        print!("{name} ... ");
        flush();
        let started = Instant::now();
        let result = work();
        let took = seconds(started.elapsed());
        self.done += 1;
        match result {
            Ok(Outcome::Passed) => println!("ok ({took})"),
            Ok(Outcome::Announce(notice)) => println!("ok ({took})\n    NOTE: {notice}"),
            Err(output) => {
                // One fault in a shared package fails many steps; it is shown once.
                match self.failed.iter().find(|earlier| essence(&earlier.output) == essence(&output)) {
                    Some(earlier) => println!("FAILED ({took}), as {:?} did", earlier.step),
                    None => println!("FAILED ({took})\n{output}"),
                }
                self.failed.push(Failure { step: name.to_owned(), output });
            }
        }
        flush();
    }

    /// Prints the sum; an error names each step that failed.
    pub(crate) fn finish(self) -> Result<(), String> {
        let took = seconds(self.started.elapsed());
        if self.failed.is_empty() {
            println!("{} passed ({took})", counted(self.done));
            return Ok(());
        }
        let mut message = format!("{} of {} failed ({took}):", self.failed.len(), counted(self.done));
        for Failure { step, output } in &self.failed {
            let first = output.lines().find(|line| line.contains("error")).unwrap_or("see above");
            message.push_str(&format!("\n  {step}: {}", first.trim()));
        }
        Err(message)
    }
}

/// What a compiler says but for its closing lines, which count the targets that it failed for.
fn essence(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter(|line| !line.contains("could not compile") && !line.contains("build failed"))
        .collect()
}

fn counted(steps: usize) -> String {
    if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") }
}

/// A duration as people read it: `0.4 s`, `2 min 5 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// A step's name must be seen while it runs; a closed pipe is no reason to stop.
fn flush() {
    let _ = std::io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_does_not_hold_back_the_next_and_is_named_at_the_end() {
        let mut steps = Steps::start();
        let mut ran = false;
        steps.step("first", || Err("some output\nerror: it broke\nmore".into()));
        steps.step("second", || {
            ran = true;
            Ok(Outcome::Passed)
        });
        assert!(ran);
        let message = steps.finish().unwrap_err();
        assert!(message.starts_with("1 of 2 steps failed"), "{message}");
        assert!(message.ends_with("first: error: it broke"), "{message}");
    }

    #[test]
    fn the_same_fault_in_two_targets_is_one() {
        let library = "error: it broke\nerror: could not compile `a` (lib)";
        let tests =
            "error: it broke\nwarning: build failed, waiting\nerror: could not compile `a` (lib test)";
        assert_eq!(essence(library), essence(tests));
        assert_ne!(essence(library), essence("error: something else"));
    }

    #[test]
    fn times_are_short_to_read() {
        assert_eq!(seconds(Duration::from_millis(440)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 5 s");
    }
}
