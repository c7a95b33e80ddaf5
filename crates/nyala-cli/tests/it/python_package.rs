//! The package for Python and its dialect of SQLAlchemy: the tests of `python/tests`, against this program. Tests of the macros for dbt
//! run only where `NYALA_DBT` names the program, because each of its calls takes ten seconds.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::program::run_long;
use crate::python::target_dir;
use crate::star::repository;

/// A virtual environment with these arguments of `pip install`, made once.
pub fn environment(name: &str, packages: &[&str]) -> PathBuf {
    let folder = target_dir().join(name);
    let marker = folder.join("installed.txt");
    // Another test process may be installing; the second process finds it done.
    let lock = File::create(target_dir().join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let requirements = packages.iter().filter_map(|package| std::fs::read_to_string(package).ok());
    let wanted = packages.join(" ") + &requirements.collect::<String>();
    if !std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        run_long(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run_long(Command::new(folder.join("bin/python")).args(pip).args(packages));
        std::fs::write(&marker, wanted).unwrap();
    }
    folder.join("bin")
}

#[test]
fn the_package_keeps_its_promises() {
    let requirements = repository("python/tests/requirements.txt");
    let programs = environment("package-venv", &["-r", requirements.to_str().unwrap()]);
    let python = repository("python");
    for arguments in [["check", "."].as_slice(), &["format", "--check", "."]] {
        run_long(Command::new(programs.join("ruff")).args(arguments).current_dir(&python));
    }
    run_long(Command::new(programs.join("mypy")).current_dir(&python));
    let mut tests = Command::new(programs.join("python"));
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]).current_dir(&python);
    tests.env("NYALA_BINARY", env!("CARGO_BIN_EXE_nyala"));
    println!("{}", run_long(tests.env("PYTHONDONTWRITEBYTECODE", "1")));
}
