//! A PostgreSQL server for one process of tests.

#![allow(clippy::expect_used, clippy::panic)]

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user and group `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65534;
const START: Duration = Duration::from_secs(60);

/// A server over a Unix socket, in a temporary folder. It ends with the process that started it, even if that is killed.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    is_root: bool,
    running: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl PostgresServer {
    /// The server that all tests of this process share.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Starts a separate server, for tests that stop it.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder for PostgreSQL");
        let is_root = folder.path().metadata().expect("the folder of PostgreSQL").uid() == 0;
        if is_root {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY))
                .expect("another owner for it");
        }
        let server = Self { folder, is_root, running: Mutex::new(None), databases: AtomicU32::new(0) };
        let made = server
            .program("initdb")
            .args(["--auth=trust", "--username=nyala", "--no-sync", "--encoding=UTF8", "--pgdata"])
            .arg(server.data())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.run();
        server
    }

    /// Starts the server again, after [`stop`](Self::stop).
    ///
    /// # Panics
    /// The server does not start.
    pub fn run(&self) {
        // The shell ends the server when its standard input closes: when this process drops it, or has ended.
        let script = "\"$0\" \"$@\" </dev/null & pid=$!; cat >/dev/null; kill -QUIT $pid; wait $pid";
        let server = binary("postgres");
        let mut shell = self.command(Path::new("sh"));
        shell.arg("-c").arg(script).arg(server).arg("-D").arg(self.data());
        for setting in ["listen_addresses=", "fsync=off", "max_connections=500", "log_min_messages=fatal"] {
            shell.arg("-c").arg(setting);
        }
        shell.arg("-k").arg(self.folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log for PostgreSQL");
        let running = shell.stderr(log).spawn().expect("a shell runs");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        let begun = Instant::now();
        while !self.query("postgres", "SELECT 1") {
            assert!(begun.elapsed() < START, "PostgreSQL does not answer; {}", self.folder.path().display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server at once, as a crash does.
    ///
    /// # Panics
    /// The server does not end.
    pub fn stop(&self) {
        if let Some(mut running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(running.stdin.take());
            running.wait().expect("PostgreSQL ends");
        }
    }

    /// Makes all processes of the server hang, as if its disk no longer answered, until [`resume`](Self::resume).
    ///
    /// # Panics
    /// The server does not run.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets the server go on after [`pause`](Self::pause).
    ///
    /// # Panics
    /// The server does not run.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends a signal to the server and to the processes that serve its connections.
    fn signal(&self, name: &str) {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).expect("PostgreSQL runs");
        let server = file.lines().next().expect("its process").to_owned();
        let children = Command::new("pgrep").args(["-P", &server]).output().expect("pgrep runs");
        let children = String::from_utf8_lossy(&children.stdout);
        let mut kill = Command::new("kill");
        kill.arg(format!("-{name}")).arg(&server).args(children.lines());
        assert!(kill.status().expect("kill runs").success(), "signal {name} to PostgreSQL");
    }

    /// Makes an empty database and returns its URL.
    ///
    /// # Panics
    /// The database cannot be made.
    pub fn create_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        // Two tests may copy the template at once, which PostgreSQL refuses.
        let copied = (0..200).any(|_| {
            let made = self.query("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
            if !made {
                std::thread::sleep(Duration::from_millis(50));
            }
            made
        });
        assert!(copied, "database `{name}` cannot be made");
        self.url(&name)
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://nyala@localhost/{database}?host={}", self.folder.path().display())
    }

    /// Runs statements in a database; whether all of them succeed.
    ///
    /// # Panics
    /// `psql` is not installed.
    pub fn query(&self, database: &str, sql: &str) -> bool {
        let mut psql = Command::new(binary("psql"));
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "nyala", "-d", database, "-c", sql]);
        let done = psql.arg("-h").arg(self.folder.path()).output().expect("psql runs");
        done.status.success()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        self.command(&binary(name))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The working folder must be one that `nobody` may read.
        command.current_dir(self.folder.path());
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A program of PostgreSQL: from the folder of the newest server that Debian installed, or else on the path.
fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).map(|folder| folder.join(name));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.sort();
    // The path goes last: `psql` there may be a script of Debian that needs a configuration.
    let all = found.into_iter().rev().chain(folders);
    let program = all.into_iter().find(|program| program.is_file());
    program.unwrap_or_else(|| panic!("`{name}` is missing: install PostgreSQL's server (Debian: postgresql)"))
}
