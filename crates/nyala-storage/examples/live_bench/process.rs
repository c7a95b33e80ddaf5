//! Resources of this process, and starts of the program for single measurements.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use nyala_storage::oplog::{DiskStore, Environment, StoreOptions};

/// Resources that this process used so far.
pub struct Usage {
    /// Seconds of processor time.
    pub seconds: f64,
    /// Bytes in memory now.
    pub resident: u64,
    /// Most bytes in memory.
    pub peak: u64,
    /// Bytes that were read from the system.
    pub read: u64,
    /// Bytes that came from a disk.
    pub from_disk: u64,
}

pub fn usage() -> Usage {
    let text = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap();
    let stat = text("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let number = |file: &str, name: &str| {
        let text = text(file);
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    Usage {
        seconds: ticks / 100.0,
        resident: number("status", "VmRSS") * 1024,
        peak: number("status", "VmHWM") * 1024,
        read: number("io", "rchar"),
        from_disk: number("io", "read_bytes"),
    }
}

pub fn open(folder: &Path) -> DiskStore {
    DiskStore::open(folder, StoreOptions::default(), Environment::default()).unwrap()
}

/// Starts this program anew and gives the numbers that it prints, by name.
pub fn run_again(arguments: &[&str]) -> BTreeMap<String, f64> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let done = command.args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(done.status.success(), "{arguments:?} failed");
    let text = String::from_utf8(done.stdout).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}
