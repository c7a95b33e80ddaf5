//! The web console: its own tests, in Chromium, and whether what is built into the program is made from its sources.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program::run_long;
use crate::python::{require, target_dir};
use crate::star::repository;

/// The console's folder, with the packages of its lock file.
fn console() -> &'static Path {
    static CONSOLE: OnceLock<PathBuf> = OnceLock::new();
    CONSOLE.get_or_init(|| {
        require("npm", "Node.js 20.19 or later, with npm");
        let folder = repository("console");
        let (modules, marker) = (folder.join("node_modules"), folder.join("node_modules/.lock-of-tests"));
        // Another test process may be installing; the second process finds it done.
        let lock = File::create(target_dir().join("console.lock")).unwrap();
        lock.lock().unwrap();
        let wanted = std::fs::read(folder.join("package-lock.json")).unwrap();
        if !modules.is_dir() || std::fs::read(&marker).ok().as_ref() != Some(&wanted) {
            run_long(
                Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder),
            );
            std::fs::write(&marker, wanted).unwrap();
        }
        folder
    })
}

#[test]
fn the_files_in_the_program_are_those_of_the_sources() {
    let built = tempfile::tempdir().unwrap();
    run_long(Command::new("npm").args(["run", "--silent", "check"]).current_dir(console()));
    let build = ["run", "--silent", "build", "--", "--emptyOutDir", "--outDir"];
    run_long(Command::new("npm").args(build).arg(built.path()).current_dir(console()));
    let (expected, found) = (files(built.path()), files(&console().join("dist")));
    let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&found),
        names(&expected),
        "run `npm ci && npm run build` in console/ and commit `dist`"
    );
    let other: Vec<_> = found.iter().zip(&expected).filter(|(found, expected)| found != expected).collect();
    assert!(other.is_empty(), "{:?} is of other sources: run `npm run build` in console/", other[0].0.0);
}

/// All files below a folder with their bytes, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_screen_does_what_it_promises() {
    require("chromium", "Chromium (Debian: chromium)");
    let mut tests = Command::new("npm");
    tests.args(["test", "--silent"]).current_dir(console()).env("NYALA", env!("CARGO_BIN_EXE_nyala"));
    println!("{}", run_long(&mut tests));
}
