//! `deploy/release.sh` to its end. `tests/release/cargo` stands in for cargo, which would optimise the whole program for an hour.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{run, run_long, try_run};
use crate::python::target_dir;
use crate::python_package::environment;
use crate::star::repository;

#[test]
fn a_release_has_archive_wheel_chart_and_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let maturin = environment("release-venv", &["maturin>=1.16,<2"]);
    std::fs::create_dir(folder.path().join("target")).unwrap();
    symlink(maturin.parent().unwrap(), folder.path().join("target/packages-venv")).unwrap();
    run_long(&mut release(folder.path()));

    let out = folder.path().join("out");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 4);
    let sums = run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&out));
    assert_eq!(sums.matches(": OK\n").count(), 3, "{sums}");
    let archive = file(&out, ".tar.gz");
    let contents = run(Command::new("tar").arg("tzf").arg(&archive));
    for part in
        ["/bin/nyala", "/nyala.toml", "/systemd/nyala.service", "/LICENSE", "/LICENSE-THIRD-PARTY.txt"]
    {
        assert!(contents.lines().any(|line| line.ends_with(part)), "{part}\n{contents}");
    }
    let contents = run(Command::new("python3").args(["-m", "zipfile", "-l"]).arg(file(&out, ".whl")));
    for part in [
        ".data/scripts/nyala ",
        "nyala/sqlalchemy.py ",
        ".dist-info/entry_points.txt ",
        ".dist-info/licenses/LICENSE ",
        ".dist-info/licenses/LICENSE-THIRD-PARTY.txt ",
    ] {
        assert!(contents.contains(part), "{part}\n{contents}");
    }
    assert!(out.join(format!("nyala-{}.tgz", env!("CARGO_PKG_VERSION"))).is_file());

    // With a flag of its own for the compiler, the wheel's build would optimise the whole program again.
    let builds = std::fs::read_to_string(folder.path().join("builds.txt")).unwrap();
    let (first, second) = builds.split_once('\n').unwrap();
    assert_eq!(first, "build --profile dist --locked -p nyala-cli");
    assert!(second.starts_with("rustc --profile dist "), "{second}");
    assert!(second.ends_with(" --bin nyala\n"), "{second}");

    let bytes = std::fs::read(&archive).unwrap();
    run_long(&mut release(folder.path()));
    assert!(bytes == std::fs::read(&archive).unwrap(), "the archive depends on when it is made");
}

#[test]
fn a_release_with_too_large_a_binary_packages_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = try_run(release(folder.path()).env("NO_WHEEL", "1").env("MAX_MB", "0"));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("MAX_MB"), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
}

#[test]
fn options_are_no_folder_of_a_release() {
    let refused = try_run(Command::new(repository("deploy/release.sh")).arg("--help"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.starts_with("usage:"), "{refused:?}");
}

/// LTO optimises the whole program at the level of its last crate, and at level 1 it does not optimise at all.
#[test]
fn packages_are_optimised_as_a_whole() {
    let manifest = std::fs::read_to_string(repository("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dist = &manifest["profile"]["dist"];
    assert_eq!(dist["lto"].as_str(), Some("fat"));
    assert_eq!(dist["package"]["nyala-cli"]["opt-level"].as_integer(), Some(3));
}

/// The script, which writes to `out` in this folder.
fn release(folder: &Path) -> Command {
    let mut command = Command::new(repository("deploy/release.sh"));
    command.arg(folder.join("out"));
    let path = std::env::var_os("PATH").unwrap();
    let programs = [repository("tests/release"), target_dir().join("tools")];
    let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path))).unwrap();
    command.env("PATH", path).env("CARGO_TARGET_DIR", folder.join("target"));
    // Programs that cargo starts find it by `CARGO`.
    command.env("CARGO", repository("tests/release/cargo")).env("REAL_CARGO", env!("CARGO"));
    command.env("LOG", folder.join("builds.txt")).env("SOURCE_DATE_EPOCH", "1700000000");
    for variable in ["NO_WHEEL", "MAX_MB", "ZIG"] {
        command.env_remove(variable);
    }
    command
}

/// The file in a folder whose name has this ending.
fn file(folder: &Path, ending: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.find(|file| file.to_string_lossy().ends_with(ending)).unwrap()
}
