//! Who drives a run: the identity of this process, and whether another one still lives.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use relight_core::{Process, RunId};
use relight_store::EventStore;

/// The identity of this process.
///
/// # Examples
///
/// ```
/// use relight_runtime::this_process;
///
/// assert_eq!(this_process().pid, std::process::id());
/// ```
pub fn this_process() -> &'static Process {
    static THIS: OnceLock<Process> = OnceLock::new();
    THIS.get_or_init(|| Process {
        host: host(),
        boot: read("/proc/sys/kernel/random/boot_id"),
        pid_namespace: fs::read_link("/proc/self/ns/pid")
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        pid: std::process::id(),
        started: own_start(),
    })
}

/// Whether a process still runs; `None` where that cannot be seen from here.
///
/// It can be seen on the same host, after the same boot and in the same namespace. A reboot ends everything, but only
/// a host that is known by its machine id is known to be the one that was booted again.
///
/// # Examples
///
/// ```
/// use relight_runtime::{is_alive, this_process};
///
/// assert_eq!(is_alive(this_process()), Some(true));
/// ```
pub fn is_alive(process: &Process) -> Option<bool> {
    judge(this_process(), process, start)
}

fn judge(here: &Process, process: &Process, start: impl Fn(u32) -> Start) -> Option<bool> {
    if here == process {
        return Some(true);
    }
    if here.host != process.host || here.boot.is_empty() || process.boot.is_empty() {
        return None;
    }
    if here.boot != process.boot {
        return process.host.contains(BEFORE_MACHINE_ID).then_some(false);
    }
    if here.pid_namespace != process.pid_namespace || here.started.is_empty() || process.started.is_empty() {
        return None;
    }
    match start(process.pid) {
        Start::At(started) => Some(started == process.started),
        Start::Nowhere => Some(false),
        Start::Hidden => None,
    }
}

/// The host's name and the machine's id. Neither is enough: containers of one image share an id, names are given
/// twice. Where there is no id, the name stands alone.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match read("/etc/machine-id") {
        id if id.is_empty() => name,
        id => format!("{name}{BEFORE_MACHINE_ID}{id}"),
    }
}

/// No host's name holds it.
const BEFORE_MACHINE_ID: char = '/';

/// What can be seen of a process.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// It started at this time, in the kernel's ticks since boot.
    At(String),
    /// There is no such process, or it is a zombie, which acts no more.
    Nowhere,
    /// There may be one, but the system does not show it.
    Hidden,
}

fn start(pid: u32) -> Start {
    match fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) {
        Ok(stat) => read_start(&stat).unwrap_or(Start::Hidden),
        // It ended while it was read.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Start::Nowhere,
        // `/proc` may hide the processes of other users (its option `hidepid`); a signal does not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(pid) => Start::Nowhere,
        Err(_) => Start::Hidden,
    }
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Reads `/proc/PID/stat`, see proc(5). The command's name may hold anything, so fields are counted from the last
/// parenthesis, behind which the third one (the state) stands.
fn read_start(stat: &str) -> Option<Start> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let (state, threads, started) = (field(3)?, field(20)?, field(22)?);
    // A process whose first thread has ended looks like a zombie while others go on.
    if matches!(state, "Z" | "X" | "x") && threads.parse().is_ok_and(|threads: u32| threads <= 1) {
        return Some(Start::Nowhere);
    }
    Some(Start::At(started.to_owned()))
}

/// When this process started; empty where `/proc` is that of another namespace, in which our number is another's.
fn own_start() -> String {
    let pid = std::process::id();
    let is_ours = fs::read_link("/proc/self").is_ok_and(|path| path == Path::new(&pid.to_string()));
    match start(pid) {
        Start::At(started) if is_ours => started,
        _ => String::new(),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Marks a run as driven by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Active {
    run: RunId,
    store: StoreHandle,
}

/// Runs driven by this process now, with the handle of the store through which each drive writes.
static ACTIVE: Mutex<BTreeMap<RunId, Vec<StoreHandle>>> = Mutex::new(BTreeMap::new());

/// A store by its address. Two handles of one store have two addresses; a drive keeps its handle, so that no other
/// store gets the address meanwhile.
type StoreHandle = usize;

impl Active {
    /// Marks a drive that begins a run: its first append decides between rivals.
    pub(crate) fn enter(run: RunId, store: &Arc<dyn EventStore>) -> Self {
        let store = handle(store);
        active().entry(run).or_default().push(store);
        Self { run, store }
    }

    /// Marks a drive that goes on with a run; `None` where another drive of it is alive.
    pub(crate) fn enter_alone(run: RunId, store: &Arc<dyn EventStore>) -> Option<Self> {
        let store = handle(store);
        let mut active = active();
        let drives = active.entry(run).or_default();
        if drives.contains(&store) {
            return None;
        }
        drives.push(store);
        Some(Self { run, store })
    }

    /// Whether a drive of this run is alive in this process.
    pub(crate) fn is_driven(run: RunId, store: &Arc<dyn EventStore>) -> bool {
        active().get(&run).is_some_and(|drives| drives.contains(&handle(store)))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut active = active();
        let Some(drives) = active.get_mut(&self.run) else { return };
        if let Some(index) = drives.iter().position(|store| *store == self.store) {
            drives.swap_remove(index);
        }
        if drives.is_empty() {
            active.remove(&self.run);
        }
    }
}

fn handle(store: &Arc<dyn EventStore>) -> StoreHandle {
    Arc::as_ptr(store).cast::<()>() as usize
}

fn active() -> MutexGuard<'static, BTreeMap<RunId, Vec<StoreHandle>>> {
    // Nothing panics between two changes that belong together.
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use relight_store::MemoryStore;

    use super::*;

    #[test]
    fn this_process_is_alive_and_its_successor_with_the_same_number_is_another() {
        let this = this_process().clone();
        assert!(!this.started.is_empty());
        assert_eq!(is_alive(&this), Some(true));
        assert_eq!(is_alive(&Process { started: "1".to_owned(), ..this }), Some(false));
    }

    fn here() -> Process {
        Process {
            host: "laptop/4f3c".to_owned(),
            boot: "boot-1".to_owned(),
            pid_namespace: "pid:[1]".to_owned(),
            pid: 7,
            started: "100".to_owned(),
        }
    }

    /// What is said of process 8, of which `start` is seen, after a change to what is known of it.
    fn judged(start: Start, change: impl Fn(&mut Process)) -> Option<bool> {
        let mut process = Process { pid: 8, started: "200".to_owned(), ..here() };
        change(&mut process);
        let seen = || match &start {
            Start::At(started) => Start::At(started.clone()),
            Start::Nowhere => Start::Nowhere,
            Start::Hidden => Start::Hidden,
        };
        judge(&here(), &process, |_| seen())
    }

    #[test]
    fn a_process_of_this_boot_and_namespace_is_as_it_is_seen() {
        let at = |started: &str| Start::At(started.to_owned());
        assert_eq!(judged(at("200"), |_| ()), Some(true));
        assert_eq!(judged(at("201"), |_| ()), Some(false), "another one has its number");
        assert_eq!(judged(Start::Nowhere, |_| ()), Some(false));
        assert_eq!(judged(Start::Hidden, |_| ()), None);
    }

    #[test]
    fn what_cannot_be_seen_from_here_or_is_not_told_proves_nothing() {
        let changes: [fn(&mut Process); 4] = [
            |process| process.host = "elsewhere/4f3c".to_owned(),
            |process| process.pid_namespace = "pid:[2]".to_owned(),
            |process| process.boot.clear(),
            |process| process.started.clear(),
        ];
        for change in changes {
            assert_eq!(judged(Start::Nowhere, change), None);
        }
    }

    #[test]
    fn a_reboot_ends_every_process_of_a_machine_that_is_known_by_more_than_its_name() {
        let rebooted = |here: &Process| {
            judge(here, &Process { boot: "boot-0".to_owned(), ..here.clone() }, |_| Start::Hidden)
        };
        assert_eq!(rebooted(&here()), Some(false));
        assert_eq!(rebooted(&Process { host: "localhost".to_owned(), ..here() }), None);
    }

    #[test]
    fn a_child_is_alive_until_it_is_dead_also_before_it_is_reaped() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let Start::At(started) = start(pid) else { panic!("it runs") };
        let process = Process { pid, started, ..this_process().clone() };
        assert_eq!(is_alive(&process), Some(true));
        drop(child.stdin.take());
        // It waits for the end, and leaves the zombie.
        let id = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
        assert_eq!(is_alive(&process), Some(false));
        child.wait().unwrap();
        assert_eq!(is_alive(&process), Some(false));
    }

    #[test]
    fn the_start_of_a_process_is_read_whatever_its_name_is() {
        let stat = |name: &str, state: &str, threads: u32| {
            read_start(&format!("7 ({name}) {state} 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 9 9"))
        };
        let at = |text: &str| Some(Start::At(text.to_owned()));
        for name in ["cat", "a) Z 1", "(", ") ) )", "two words"] {
            assert_eq!(stat(name, "S", 1), at("4711"), "{name}");
        }
        assert_eq!(stat("cat", "Z", 1), Some(Start::Nowhere));
        assert_eq!(stat("cat", "Z", 3), at("4711"), "its other threads go on");
        assert_eq!(read_start("7 (cat) S 1"), None);
        assert_eq!(read_start(""), None);
    }

    #[test]
    fn a_run_is_driven_once_for_each_handle_of_a_store() {
        let run = RunId::from_uuid(uuid::Uuid::from_u128(0xac71));
        let stores: [Arc<dyn EventStore>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
        let first = Active::enter_alone(run, &stores[0]).unwrap();
        assert!(Active::enter_alone(run, &stores[0]).is_none());
        let second = Active::enter_alone(run, &stores[1]).unwrap();
        drop(first);
        assert!(!Active::is_driven(run, &stores[0]) && Active::is_driven(run, &stores[1]));
        drop(second);
        assert!(active().get(&run).is_none());
    }
}
