//! `cargo xtask`: the project's own checks and tests, as contributors and CI run them.

mod cargo;
mod check;
mod features;
mod metadata;
mod needs;
mod steps;
mod suites;
mod test;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match Chore::parse(&args) {
        Ok(Chore::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Chore::Check { install }) => check::run(install),
        Ok(Chore::Test { install, cargo_args }) => test::run(install, &cargo_args),
        Ok(Chore::Tidy) => tidy::run(),
        Err(message) => {
            eprint!("xtask: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\nxtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What was asked for on the command line.
#[derive(Debug, PartialEq)]
enum Chore {
    Check { install: needs::Install },
    Test { install: needs::Install, cargo_args: Vec<String> },
    Tidy,
    Help,
}

impl Chore {
    fn parse(args: &[String]) -> Result<Chore, String> {
        let Some((name, rest)) = args.split_first() else { return Ok(Chore::Help) };
        let (own, cargo_args) = match rest.iter().position(|arg| arg == "--") {
            Some(at) => (&rest[..at], rest[at + 1..].to_vec()),
            None => (rest, Vec::new()),
        };
        if own.iter().any(|arg| arg == "--help" || arg == "-h") {
            return Ok(Chore::Help);
        }
        let install = match own {
            [] => needs::Install::AsRoot,
            [flag] if flag == "--install" => needs::Install::Always,
            [first, ..] => return Err(format!("`{name}` does not take {first:?}")),
        };
        match name.as_str() {
            "check" if cargo_args.is_empty() => Ok(Chore::Check { install }),
            "tidy" if own.is_empty() && cargo_args.is_empty() => Ok(Chore::Tidy),
            "test" => Ok(Chore::Test { install, cargo_args }),
            "help" | "--help" | "-h" => Ok(Chore::Help),
            "check" | "tidy" => Err(format!("`{name}` takes no such arguments: {}", rest.join(" "))),
            _ => Err(format!("there is no chore {name:?}")),
        }
    }
}

const USAGE: &str = "\
cargo xtask CHORE

  test  [--install] [-- ARGS]  Run every test of the workspace; ARGS go to `cargo test`.
  check [--install]            Formatting, clippy for each feature set, each package alone,
                               docs, house rules, cargo-deny.
  tidy                         The house rules alone.

What a chore needs and does not find is announced; it is installed when run as root or
in CI, and elsewhere with --install.

  cargo xtask test -- -p relight-core         one package
  cargo xtask test -- replay -- --nocapture   tests by name, with their output
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::Install;

    fn parse(line: &str) -> Result<Chore, String> {
        Chore::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_follows_the_dashes_goes_to_cargo_test() {
        assert_eq!(
            parse("test --install -- -p relight-core -- --nocapture"),
            Ok(Chore::Test {
                install: Install::Always,
                cargo_args: ["-p", "relight-core", "--", "--nocapture"].map(String::from).to_vec(),
            }),
        );
    }

    #[test]
    fn without_a_flag_only_root_installs() {
        assert_eq!(parse("check"), Ok(Chore::Check { install: Install::AsRoot }));
        assert_eq!(parse("test"), Ok(Chore::Test { install: Install::AsRoot, cargo_args: vec![] }));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(parse("chek").unwrap_err().contains("chek"));
        assert!(parse("test --fast").unwrap_err().contains("--fast"));
        assert!(parse("tidy --install").unwrap_err().contains("--install"));
        assert_eq!(parse(""), Ok(Chore::Help));
    }
}
