//! Who drives a run: the identity of this process, and whether another one still lives.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use relight_core::{Process, RunId};
use relight_store::EventStore;

/// The identity of this process.
pub fn this_process() -> &'static Process {
    static THIS: OnceLock<Process> = OnceLock::new();
    THIS.get_or_init(|| Process {
        host: host(),
        boot: read("/proc/sys/kernel/random/boot_id"),
        pid_namespace: fs::read_link("/proc/self/ns/pid")
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        pid: std::process::id(),
        started: started(std::process::id()).unwrap_or_default(),
    })
}

/// Whether a process still runs; `None` where that cannot be seen from here.
///
/// It can be seen on the same host, after the same boot and in the same namespace; a reboot ends everything.
pub fn is_alive(process: &Process) -> Option<bool> {
    let here = this_process();
    if here == process {
        return Some(true);
    }
    if process.host.is_empty() || here.host != process.host || process.boot.is_empty() || here.boot.is_empty()
    {
        return None;
    }
    if here.boot != process.boot {
        return Some(false);
    }
    if here.pid_namespace != process.pid_namespace || process.started.is_empty() {
        return None;
    }
    Some(started(process.pid).is_some_and(|started| started == process.started))
}

/// The machine's id, which survives a change of its name; else the name.
fn host() -> String {
    let id = read("/etc/machine-id");
    if !id.is_empty() {
        return id;
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When a process started, in the kernel's ticks since boot; `None` where there is no such process, or it is a
/// zombie, which acts no more.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The command's name may hold anything, so fields are counted from the last parenthesis: state is field 3.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // proc(5): starttime is field 22, which is 18 after the state's successor.
    fields.nth(18).map(str::to_owned)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Runs driven by this process now: two drives of one run may meet in one process as well as in two.
static ACTIVE: Mutex<Vec<Drive>> = Mutex::new(Vec::new());

/// A drive, by its run and the address of its store. Two handles of one store have two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Drive {
    run: RunId,
    store: usize,
}

/// Marks a run as driven by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Active(Drive);

impl Active {
    /// Marks a drive that begins a run: its first append decides between rivals.
    pub(crate) fn enter(run: RunId, store: &Arc<dyn EventStore>) -> Self {
        let drive = Drive::of(run, store);
        active().push(drive);
        Self(drive)
    }

    /// Marks a drive that goes on with a run; `None` where another drive of it is alive.
    pub(crate) fn enter_alone(run: RunId, store: &Arc<dyn EventStore>) -> Option<Self> {
        let drive = Drive::of(run, store);
        let mut active = active();
        if active.contains(&drive) {
            return None;
        }
        active.push(drive);
        Some(Self(drive))
    }

    /// Whether another drive of the same run is alive in this process, whatever handle of a store it has.
    pub(crate) fn has_rival(&self) -> bool {
        active().iter().filter(|drive| drive.run == self.0.run).count() > 1
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut active = active();
        if let Some(index) = active.iter().position(|drive| *drive == self.0) {
            active.swap_remove(index);
        }
    }
}

impl Drive {
    fn of(run: RunId, store: &Arc<dyn EventStore>) -> Self {
        Self { run, store: Arc::as_ptr(store).cast::<()>() as usize }
    }
}

fn active() -> MutexGuard<'static, Vec<Drive>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_successor_with_the_same_number_is_another() {
        let this = this_process().clone();
        assert_eq!(is_alive(&this), Some(true));
        assert_eq!(is_alive(&Process { started: "1".to_owned(), ..this }), Some(false));
    }

    #[test]
    fn a_process_of_another_host_cannot_be_seen() {
        let elsewhere = Process { host: "elsewhere".to_owned(), ..this_process().clone() };
        assert_eq!(is_alive(&elsewhere), None);
    }

    #[test]
    fn a_reboot_ends_every_process() {
        let before = Process { boot: "an earlier one".to_owned(), ..this_process().clone() };
        assert_eq!(is_alive(&before), Some(false));
    }

    #[test]
    fn a_child_that_was_reaped_is_known_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(started(pid), None);
    }
}
