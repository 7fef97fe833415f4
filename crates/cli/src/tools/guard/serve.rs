//! The guard's side: `relight guard`, which no help speaks of.

use std::{
    io::{self, BufRead as _, Read, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::{Job, Report, group};
use crate::exit::Exit;

/// Reads a job from stdin, guards the command, and reports on stdout.
pub(crate) fn serve() -> Exit {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    // A driver that died while it spoke wants nothing any more.
    if read.is_err() || !line.ends_with('\n') {
        return Exit::Unexpected;
    }
    let Ok(job) = serde_json::from_str::<Job>(&line) else { return Exit::Unexpected };
    // The lock, which came as stderr; this copy of it is inherited by the command and by all that it starts.
    let lock = rustix::io::dup(io::stderr());
    group::adopt_orphans();
    let (report, all_gone) = guard(&job);
    if all_gone {
        // Still under the lock: whoever takes it next sees that the file is another by then.
        let _ = std::fs::remove_file(&job.lock);
    }
    if let Ok(report) = serde_json::to_string(&report) {
        let _ = writeln!(io::stdout(), "{report}");
    }
    drop(lock);
    Exit::Ok
}

/// What the guard waits for.
enum Event {
    Exited,
    DriverGone,
    TooMuchOutput,
}

fn guard(job: &Job) -> (Report, bool) {
    let mut command = Command::new(&job.program);
    command.args(&job.args).current_dir(&job.folder).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let why = format!("{} cannot be started: {error}", job.program.display());
            return (Report::NotStarted { why }, true);
        }
    };
    let leader = Pid::from_child(&child);
    let (events, happened) = mpsc::channel();
    give_input(&mut child, job.input.clone());
    let stdout = collect(child.stdout.take(), Keep::First(job.max_output_bytes), Some(events.clone()));
    let stderr = collect(child.stderr.take(), Keep::Last(STDERR_BYTES), None);
    watch_child(leader, events.clone());
    watch_driver(events);

    let cause = happened.recv_timeout(Duration::from_millis(job.timeout_ms));
    group::kill(leader);
    let status = child.wait();
    let all_gone = group::end_descendants();
    // A process that escaped may hold the pipes open.
    let stdout = stdout.recv_timeout(PIPE_PATIENCE).unwrap_or_default();
    let stderr =
        String::from_utf8_lossy(&stderr.recv_timeout(PIPE_PATIENCE).unwrap_or_default()).into_owned();
    let report = match cause {
        Ok(Event::DriverGone) => Report::DriverGone,
        Err(RecvTimeoutError::Timeout) => Report::TimedOut { stderr },
        Ok(Event::TooMuchOutput) => Report::TooMuchOutput { stderr },
        Ok(Event::Exited) if stdout.len() > job.max_output_bytes => Report::TooMuchOutput { stderr },
        Ok(Event::Exited) | Err(RecvTimeoutError::Disconnected) => exited(status, stdout, stderr),
    };
    (report, all_gone)
}

fn exited(status: io::Result<ExitStatus>, stdout: Vec<u8>, stderr: String) -> Report {
    let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
    Report::Exited { code, signal, stdout: String::from_utf8(stdout).ok(), stderr }
}

/// A command that does not read its input may close it.
fn give_input(child: &mut Child, input: String) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
}

/// Tells when the command's own process is over, and leaves it unreaped.
fn watch_child(leader: Pid, events: Sender<Event>) {
    thread::spawn(move || {
        let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(leader), unreaped) {}
        let _ = events.send(Event::Exited);
    });
}

/// The pipe from the driver ends with the driver, or when it wants the command no more.
fn watch_driver(events: Sender<Event>) {
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = events.send(Event::DriverGone);
    });
}

/// Which bytes of a pipe matter.
enum Keep {
    /// One more than so many, which shows that there are too many.
    First(usize),
    Last(usize),
}

fn collect(
    pipe: Option<impl Read + Send + 'static>,
    keep: Keep,
    events: Option<Sender<Event>>,
) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 8192];
        let mut pipe = pipe;
        while let Some(Ok(read @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut buffer)) {
            kept.extend_from_slice(&buffer[..read]);
            match keep {
                Keep::First(limit) if kept.len() > limit => {
                    if let Some(events) = &events {
                        let _ = events.send(Event::TooMuchOutput);
                    }
                    break;
                }
                Keep::Last(limit) if kept.len() > limit => drop(kept.drain(..kept.len() - limit)),
                Keep::First(_) | Keep::Last(_) => {}
            }
        }
        let _ = sender.send(kept);
    });
    receiver
}

/// How much of what a command says on stderr is kept for its error.
const STDERR_BYTES: usize = 4096;

/// How long the rest of the output may take when all that could write it is dead.
const PIPE_PATIENCE: Duration = Duration::from_secs(1);
