//! The test's side of a child process: give it orders, hear its reports, and kill it.

use std::{os::unix::process::ExitStatusExt as _, process::Stdio, time::Duration};

use relight_core::RunId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{interval, timeout},
};

use crate::{
    child::{MARK, NAME, SETUP},
    protocol::{Order, Pause, Report, Setup},
};

/// A child process that drives runs. Dropped, it is killed.
pub(crate) struct Driver {
    child: Child,
    orders: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    /// Starts one and waits until it is ready for orders.
    pub(crate) async fn start(setup: &Setup) -> Driver {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--quiet"])
            .env(SETUP, serde_json::to_string(setup).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut driver = Driver { child, orders, output };
        assert_eq!(driver.report().await, Report::Ready);
        driver
    }

    pub(crate) async fn order(&mut self, order: Order) {
        let line = format!("{}\n", serde_json::to_string(&order).unwrap());
        self.orders.write_all(line.as_bytes()).await.unwrap();
    }

    /// Its next report.
    pub(crate) async fn report(&mut self) -> Report {
        let next = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                if let Some(report) = line.strip_prefix(MARK) {
                    return serde_json::from_str(report).unwrap();
                }
            }
            panic!("the child ended without a report: {:?}", self.child.wait().await.unwrap());
        };
        within("a report of the child", next).await
    }

    /// Lets it start or resume a run, to the end of its drive.
    pub(crate) async fn drive(&mut self, run: RunId) -> Report {
        self.order(Order::Drive { run, pause: None }).await;
        self.report().await
    }

    /// Lets it start or resume a run up to a point at which it waits.
    pub(crate) async fn drive_to(&mut self, run: RunId, pause: Pause) {
        self.order(Order::Drive { run, pause: Some(pause) }).await;
        assert_eq!(self.report().await, Report::Paused, "{pause:?}");
    }

    /// Ends it by SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        let status = within("the death of the child", self.child.wait()).await.unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
    }

    /// Lets it end by itself.
    pub(crate) async fn end(mut self) {
        drop(self.orders);
        let status = within("the end of the child", self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        let pid = self.child.id().expect("it was not waited for");
        Pid::from_raw(pid.try_into().unwrap()).unwrap()
    }
}

/// The result of `work`, which must come in time.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("{what} did not come within {DEADLINE:?}"))
}

/// Waits until something that nobody tells about is seen.
pub(crate) async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    within(what, async {
        let mut looks = interval(Duration::from_millis(2));
        while !seen() {
            looks.tick().await;
        }
    })
    .await;
}

/// Only ever reached where something is wrong.
const DEADLINE: Duration = Duration::from_secs(60);
