//! Runs the binary and other programs as processes, each bounded in time and ended with its test.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// Time enough for everything that is expected to end, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Time enough to find that a node hangs: pings tell within 7 seconds, and a connection is given up after 3.
pub const NOTICED: Duration = Duration::from_secs(20);

/// The binary under test, away from any `nyala.toml`.
pub fn nyala(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    // Variables of the tests, such as NYALA_PYTHON, set no configuration key and would be refused.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NYALA_")) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

/// Runs a program that must succeed; gives its stdout.
pub fn run(command: &mut Command) -> String {
    let finished = Running::start(command).finish(PATIENCE);
    assert_eq!(finished.code, Some(0), "{command:?}\n{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

/// Runs a program that installs packages or has tests of its own, which takes minutes on a slow machine.
pub fn run_long(command: &mut Command) -> String {
    let finished = Running::start(command).finish(Duration::from_secs(900));
    assert_eq!(finished.code, Some(0), "{command:?}\n{}\n{}", finished.stdout, finished.stderr);
    finished.stdout
}

/// Runs a program that may fail.
pub fn try_run(command: &mut Command) -> Finished {
    Running::start(command).finish(PATIENCE)
}

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A program that runs, at most as long as this value lives.
pub struct Running {
    child: Child,
    stdout: NamedTempFile,
    stderr: NamedTempFile,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        // Files rather than pipes, so that a program never waits for its reader.
        let (stdout, stderr) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
        command.stdout(stdout.reopen().unwrap()).stderr(stderr.reopen().unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, stdout, stderr }
    }

    pub fn stdout(&self) -> String {
        text_of(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        text_of(&self.stderr)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `INT`, to a program that still runs.
    pub fn signal(&mut self, name: &str) {
        assert!(self.is_running(), "it has ended already\n{}\n{}", self.stdout(), self.stderr());
        let id = self.child.id().to_string();
        run(Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &id]));
    }

    /// Ends the program as a power cut would: by SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the program.
    pub fn finish(mut self, within: Duration) -> Finished {
        let status = self.wait(within);
        Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still running after {within:?}\n{}\n{}",
                self.stdout(),
                self.stderr()
            );
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the process has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text_of(file: &NamedTempFile) -> String {
    String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).into_owned()
}

/// Waits until something holds.
pub fn eventually(what: &str, within: Duration, holds: impl FnMut() -> bool) {
    eventually_or_tell(what, within, holds, String::new);
}

/// Waits until something holds. If it does not, the failure tells the state of then, too.
pub fn eventually_or_tell(
    what: &str,
    within: Duration,
    mut holds: impl FnMut() -> bool,
    state: impl Fn() -> String,
) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {within:?}\n{}", state());
        sleep(Duration::from_millis(20));
    }
}
