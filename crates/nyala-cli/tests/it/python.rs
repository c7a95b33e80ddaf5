//! A Python that has the packages of `tests/compat/requirements.txt`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program::{run, try_run};
use crate::star::repository;

/// Folder that tests may keep things in from run to run.
pub fn target_dir() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// A command that runs a script of `tests/compat`. The interpreter is the one `NYALA_PYTHON` names, or
/// that of a virtual environment in the target folder, made once.
pub fn script(name: &str) -> Command {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = PYTHON.get_or_init(|| match std::env::var_os("NYALA_PYTHON") {
        Some(python) => check_packages(PathBuf::from(python)),
        None => virtual_environment(),
    });
    let mut command = Command::new(python);
    command.arg(repository("tests/compat").join(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn requirements() -> PathBuf {
    repository("tests/compat/requirements.txt")
}

fn check_packages(python: PathBuf) -> PathBuf {
    let found = try_run(Command::new(&python).args([
        "-c",
        "import adbc_driver_flightsql, asyncpg, deltalake, duckdb, flask_cors, jsonschema, kylinpy, moto, \
         openapi_spec_validator, psycopg, pyarrow, sqlalchemy",
    ]));
    assert_eq!(
        found.code,
        Some(0),
        "the Python of NYALA_PYTHON lacks packages of these tests: run `{} -m pip install -r {}`\n{}",
        python.display(),
        requirements().display(),
        found.stderr
    );
    python
}

/// Makes the environment unless it is there with just these requirements.
fn virtual_environment() -> PathBuf {
    let folder = target_dir().join("compat-venv");
    let (python, marker) = (folder.join("bin/python"), folder.join("installed.txt"));
    // Another test process may be installing; the second process finds it done.
    let lock = File::create(target_dir().join("compat-venv.lock")).unwrap();
    lock.lock().unwrap();
    let wanted = std::fs::read_to_string(requirements()).unwrap();
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    println!("making a Python environment for the tests in {} …", folder.display());
    let help = "install Python 3 with its venv module, or set NYALA_PYTHON to one that has the packages of \
                tests/compat/requirements.txt";
    let made = try_run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    assert_eq!(made.code, Some(0), "`python3 -m venv` failed: {help}\n{}{}", made.stdout, made.stderr);
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let installed = try_run(Command::new(&python).args(pip).arg(requirements()));
    assert_eq!(installed.code, Some(0), "`pip install` failed: {help}\n{}", installed.stderr);
    std::fs::write(&marker, wanted).unwrap();
    python
}

/// Fails with a message that names the package to install, unless the program is there.
pub fn require(program: &str, package: &str) {
    let found = Command::new(program).arg("--version").output();
    assert!(found.is_ok(), "`{program}` is needed for this test: install {package}");
}

/// The PostgreSQL JDBC driver, fetched from Maven Central once.
pub fn jdbc_driver() -> PathBuf {
    jar("org.postgresql:postgresql", "42.7.8")
}

/// An artifact of Maven Central, `group:name`, fetched once.
pub fn jar(artifact: &str, version: &str) -> PathBuf {
    let folder = target_dir().join("compat-jars");
    let name = artifact.rsplit(':').next().unwrap();
    let jar = folder.join(format!("{name}-{version}.jar"));
    if !jar.is_file() {
        require("mvn", "Maven (Debian: maven)");
        let artifact = format!("-Dartifact={artifact}:{version}");
        let output = format!("-DoutputDirectory={}", folder.display());
        run(Command::new("mvn").args(["-q", "-B", "dependency:copy", &artifact, &output]));
        assert!(jar.is_file(), "Maven did not bring {}", jar.display());
    }
    jar
}
