//! The processes that a command started, and how all of them are ended.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions},
};

/// Makes this process the parent of all orphans among its descendants, so that none of them gets out of sight.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Kills a process group. Its leader must not have been reaped: its number could be another's by then.
pub(super) fn kill(leader: Pid) {
    let _ = rustix::process::kill_process_group(leader, Signal::KILL);
}

/// Kills and reaps all that is left of a command. Returns whether it is known that nothing lives any more.
pub(super) fn end_descendants() -> bool {
    let began = Instant::now();
    loop {
        for child in children() {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                // What it had started is ours now, and is killed in the next round.
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return cfg!(target_os = "linux"),
                Err(_) => return false,
            }
        }
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The children of this process, adopted ones included.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The command's name may hold anything; behind it stand the state and the parent.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
            (parent == own).then_some(pid)
        })
        .collect()
}

/// A process in the middle of a transfer dies when that ends.
const PATIENCE: Duration = Duration::from_secs(5);
