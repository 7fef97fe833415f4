//! A folder with an agent, a scripted model on loopback, and the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use relight::{EventEnvelope, EventStore, RunId};
use relight_testkit::{Answer, Script, ScriptedServer};
use serde_json::Value;
use tokio::process::{Child, Command};

/// The binary under test.
pub(crate) const RELIGHT: &str = env!("CARGO_BIN_EXE_relight");

/// A folder of its own, in which the binary runs with `relight.db` as its store.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: ScriptedServer,
}

/// A process that is over.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// A model that follows a script, and an agent without tools.
    pub(crate) async fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = ScriptedServer::start(script).await.unwrap();
        let world = Self { folder, server };
        world.agent("");
        world
    }

    /// A model that says one thing.
    pub(crate) async fn saying(text: &str) -> Self {
        Self::new(Script::new().turn(Answer::text(text))).await
    }

    /// A model that calls a tool once and then says "All done.", and an agent that has the tool.
    pub(crate) async fn calling(tool: &str, input: Value, more: &str) -> Self {
        let script =
            Script::new().turn(Answer::tool_use("toolu_1", tool, input)).turn(Answer::text("All done."));
        let world = Self::new(script).await;
        world.agent(more);
        world
    }

    /// Writes `agent.toml`, with more lines behind those that every agent here has.
    pub(crate) fn agent(&self, more: &str) {
        let base_url = self.server.base_url();
        let text =
            format!("provider = {{ base_url = \"{base_url}\", max_retries = 0 }}\nmodel = \"m\"\n{more}\n");
        fs::write(self.path("agent.toml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The binary with arguments separated by spaces.
    pub(crate) fn command(&self, args: &str) -> Command {
        self.command_of(RELIGHT, args)
    }

    pub(crate) fn command_of(&self, binary: impl AsRef<Path>, args: &str) -> Command {
        let mut command = Command::new(binary.as_ref());
        command.args(args.split_whitespace()).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // What the developer's own shell has set must not matter, and locks of keys stay within the test.
        for name in
            ["RELIGHT_STORE", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"]
        {
            command.env_remove(name);
        }
        command.env("TMPDIR", self.folder.path());
        command
    }

    /// Runs the binary to its end.
    pub(crate) async fn relight(&self, args: &str) -> Ran {
        finish(self.command(args)).await
    }

    /// `run --text go`, with a result in JSON.
    pub(crate) async fn run(&self) -> Ran {
        self.relight("run --agent agent.toml --text go --json").await
    }

    /// Starts `run --text go` and leaves it running; progress goes to stderr as JSON.
    pub(crate) fn spawn_run(&self) -> Child {
        self.command("run --agent agent.toml --text go --json --progress json").spawn().unwrap()
    }

    /// The one run of the store.
    pub(crate) async fn only_run(&self) -> RunId {
        let page = self.store().await.list_runs(&Default::default()).await.unwrap();
        assert_eq!(page.items.len(), 1, "{page:?}");
        page.items[0].run_id
    }

    pub(crate) async fn store(&self) -> std::sync::Arc<dyn EventStore> {
        relight::open(self.path("relight.db").to_str().unwrap()).await.unwrap()
    }

    pub(crate) async fn log(&self, run: RunId) -> Vec<EventEnvelope> {
        self.store().await.read_log(run).await.unwrap()
    }

    /// The kinds of the events of the one run, in short.
    pub(crate) async fn kinds(&self) -> Vec<&'static str> {
        let log = self.log(self.only_run().await).await;
        log.iter().map(|envelope| envelope.event.kind()).collect()
    }

    /// Changes the store's file as somebody would who must not.
    pub(crate) async fn tamper(&self, sql: &'static str) {
        use sqlx::Connection as _;
        let path = self.path("relight.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let changed = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        assert!(changed.rows_affected() > 0 || sql.starts_with("PRAGMA"), "{sql} changed nothing");
        connection.close().await.unwrap();
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It failed with one line of error that holds all of these parts.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, parts: &[&str]) -> Self {
        let ran = self.ended(code);
        let line = ran.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {ran:?}"));
        assert!(!line.contains('\n'), "more than one line: {ran:?}");
        assert!(line.starts_with("error: ") || line.starts_with("waiting: "), "{ran:?}");
        for part in parts {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        ran
    }

    /// What it printed as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What it printed as JSON Lines.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The command that an error proposes, between backticks.
    #[track_caller]
    pub(crate) fn proposed(&self) -> &str {
        self.stderr.rsplit('`').nth(1).unwrap_or_else(|| panic!("no command in {self:?}"))
    }
}

pub(crate) async fn finish(mut command: Command) -> Ran {
    Ran::from(command.output().await.unwrap())
}

/// Waits for a process that was started with pipes.
pub(crate) async fn wait(child: Child) -> Ran {
    Ran::from(child.wait_with_output().await.unwrap())
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        // Shells report a process that a signal ended in this way.
        let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Waits until something is seen, and gives up after a while.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let seen = async {
        while !holds() {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(2)).await; // tidy: allow(sleep) because a deadline stands around it
        }
    };
    assert!(tokio::time::timeout(PATIENCE, seen).await.is_ok(), "{what} did not happen");
}

/// Waits for an answer of the model to stall, and gives up after a while.
pub(crate) async fn until_stalled(world: &World) {
    until("a stalled answer", || {
        let requests = world.server.requests();
        requests.iter().any(|request| request.progress == relight_testkit::Progress::Stalled)
    })
    .await;
}

pub(crate) fn kill(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) fn kill_by_id(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Whether a process still acts; a zombie does not.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

const PATIENCE: Duration = Duration::from_secs(20);
