//! Colours, closed pipes and completion scripts.

use relight_testkit::{Answer, At, Script};

use crate::support::{World, finish, until, until_stalled};

#[tokio::test]
async fn colour_is_for_terminals_unless_it_is_asked_for() {
    let world = World::saying("Fine.").await;
    world.run().await.ended(0);
    assert!(!world.relight("list").await.ended(0).stdout.contains('\x1b'));
    assert!(world.relight("list --color always").await.ended(0).stdout.contains('\x1b'));
    assert!(world.relight("--color always show nonsense").await.ended(2).stderr.contains('\x1b'));
    let mut command = world.command("list --color auto");
    command.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert!(!finish(command).await.ended(0).stdout.contains('\x1b'));
}

#[tokio::test]
async fn a_terminal_gets_colours_a_progress_line_and_the_answer_once() {
    let script = Script::new().turn(Answer::text("one two three").stall(At::Events(0)));
    let world = World::new(script).await;
    let (terminal, screen) = terminal();
    let mut command = world.command("run --agent agent.toml --text go");
    command.stdout(screen.try_clone().unwrap()).stderr(screen).env("TERM", "xterm");
    let run = command.spawn().unwrap();
    drop(command);
    until_stalled(&world).await;
    let shown = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    std::thread::spawn({
        let shown = shown.clone();
        move || {
            let mut terminal = std::fs::File::from(terminal);
            let mut part = [0; 256];
            // The system ends a terminal whose program is gone with an error.
            while let Ok(read @ 1..) = std::io::Read::read(&mut terminal, &mut part) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..read]));
            }
            shown.lock().unwrap().push_str("(end)");
        }
    });
    // The model has not said a word yet.
    until("the progress line", || shown.lock().unwrap().contains("the model is asked")).await;
    world.server.release();
    crate::support::wait(run).await.ended(0);
    until("the end", || shown.lock().unwrap().ends_with("(end)")).await;
    let shown = shown.lock().unwrap();
    assert!(shown.contains('\x1b') && shown.contains("1 model call"), "{shown:?}");
    assert_eq!(shown.matches("one two three").count(), 1, "{shown:?}");
}

/// A terminal: the end of whoever looks at it, and the end of the program.
fn terminal() -> (std::os::fd::OwnedFd, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let screen = std::fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (terminal, screen)
}

#[tokio::test]
async fn what_a_model_says_cannot_drive_the_terminal() {
    let world = World::saying("\x1b]0;gotcha\x07 hello").await;
    let ran = world.relight("run --agent agent.toml --text hi --progress live").await.ended(0);
    assert!(!ran.stderr.contains('\x1b') && ran.stderr.contains("hello"), "{ran:?}");
    let run = world.only_run().await;
    assert!(!world.relight(&format!("show {run}")).await.ended(0).stdout.contains('\x1b'));
    // A pipe gets the answer as it is.
    assert_eq!(ran.stdout, "\x1b]0;gotcha\x07 hello\n");
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let world = World::saying("Fine.").await;
    world.run().await.ended(0);
    for args in ["list", "list --json", "verify", "completions bash", "--help"] {
        let mut child = world.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let ran = crate::support::wait(child).await.ended(0);
        assert_eq!(ran.stderr, "", "{args}");
    }
}

#[tokio::test]
async fn a_run_ends_as_it_does_also_where_nobody_reads() {
    let world = World::new(Script::new().turn(Answer::text("No.").stop_reason("refusal"))).await;
    let mut child = world.command("run --agent agent.toml --text go --json").spawn().unwrap();
    drop(child.stdout.take());
    crate::support::wait(child).await.failed(3, &["refused"]);
}

#[tokio::test]
async fn every_shell_gets_a_completion_script() {
    let world = World::saying("ok").await;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.relight(&format!("completions {shell}")).await.ended(0).stdout;
        for part in ["relight", "resume", "completions"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
        assert!(!script.contains("guard"), "{shell} completes what is hidden");
    }
    world.relight("completions fishy").await.ended(2);
}

#[tokio::test]
async fn the_help_has_the_exit_codes_and_every_subcommand_has_examples() {
    let world = World::saying("ok").await;
    let help = world.relight("--help").await.ended(0).stdout;
    assert!(help.contains("Exit codes:") && help.contains("143"), "{help}");
    let names = ["run", "resume", "list", "show", "tail", "verify", "export", "resolve", "cancel", "demo"];
    for name in names.into_iter().chain(["completions"]) {
        let help = world.relight(&format!("{name} --help")).await.ended(0).stdout;
        assert!(help.contains("Examples:") && help.contains(&format!("  relight {name}")), "{help}");
    }
}
