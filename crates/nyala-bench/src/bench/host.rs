//! Process and machine statistics of Linux. On other systems they are unknown, and reports leave them out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde::Serialize;

/// Length of the ticks in `/proc/PID/stat`: USER_HZ is 100 on every architecture there is.
const TICK: Duration = Duration::from_millis(10);

/// The machine that measures.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: Option<String>,
    /// Threads of the processor that this process may use.
    pub threads: usize,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Version of the kernel.
    pub kernel: Option<String>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let of = |file: &str, key: &str| field(&fs::read_to_string(file).ok()?, key).map(str::to_owned);
        Self {
            processor: of("/proc/cpuinfo", "model name"),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: of("/proc/meminfo", "MemTotal").and_then(|text| kilobytes(&text)),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        }
    }
}

/// CPU time that this process has used.
pub fn own_cpu() -> Option<Duration> {
    cpu_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// A server: a process and all below it, since some servers start one for each connection.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    pid: u32,
}

impl Server {
    /// The process with this id, if it is there.
    pub fn of_pid(pid: u32) -> Option<Self> {
        fs::metadata(format!("/proc/{pid}/stat")).ok().map(|_| Self { pid })
    }

    /// CPU time that the server's processes have used, including processes that have ended.
    pub fn cpu(self) -> Option<Duration> {
        let family = self.family();
        let times = family.iter().filter_map(|pid| read(*pid, "stat")).filter_map(|stat| cpu_of(&stat));
        times.reduce(Duration::saturating_add)
    }

    /// Proportional set size of the server's processes: shared memory counts once.
    pub fn memory_bytes(self) -> Option<u64> {
        let rollups = self.family().into_iter().filter_map(|pid| read(pid, "smaps_rollup"));
        let sizes = rollups.filter_map(|rollup| kilobytes(field(&rollup, "Pss")?));
        sizes.reduce(u64::saturating_add)
    }

    /// Resident set size of the server's processes: shared memory counts for each of them.
    pub fn resident_bytes(self) -> Option<u64> {
        self.sum_of_status(|status| kilobytes(field(status, "VmRSS")?))
    }

    /// Threads of the server's processes.
    pub fn threads(self) -> Option<u64> {
        self.sum_of_status(|status| field(status, "Threads")?.parse().ok())
    }

    fn sum_of_status(self, value: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        let status = self.family().into_iter().filter_map(|pid| read(pid, "status"));
        status.filter_map(|status| value(&status)).reduce(u64::saturating_add)
    }

    /// Files and sockets that the server's processes hold open.
    pub fn open_files(self) -> Option<u64> {
        let folders =
            self.family().into_iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
        folders.map(|folder| folder.count() as u64).reduce(u64::saturating_add)
    }

    fn family(self) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for (pid, parent) in pids.filter_map(|pid| Some((pid, parent_of(&read(pid, "stat")?)?))) {
            children.entry(parent).or_default().push(pid);
        }
        let (mut family, mut open) = (BTreeSet::new(), vec![self.pid]);
        while let Some(pid) = open.pop() {
            if family.insert(pid) {
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        family
    }
}

fn read(pid: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).ok()
}

/// The fields after the program's name, which may contain blanks and brackets.
fn after_name(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

fn parent_of(stat: &str) -> Option<u32> {
    after_name(stat)?.get(1)?.parse().ok()
}

/// `utime`, `stime`, and those of children that have ended and were waited for: fields 14 to 17 of proc(5).
fn cpu_of(stat: &str) -> Option<Duration> {
    let fields = after_name(stat)?;
    let ticks = (11..15).map(|place| fields.get(place)?.parse::<u32>().ok()).sum::<Option<u32>>()?;
    Some(TICK.saturating_mul(ticks))
}

/// The value of `key: value` in one of the files of `/proc`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value =
        |line: &'a str| line.split_once(':').filter(|(name, _)| name.trim() == key).map(|(_, value)| value);
    text.lines().find_map(value).map(str::trim)
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b) S 7 42 42 0 -1 4194560 2 0 0 0 100 20 3 1 20 0 9 0 5 6 7";

    #[test]
    fn files_of_proc_are_read() {
        assert_eq!(cpu_of(STAT), Some(Duration::from_millis(1240)));
        assert_eq!(parent_of(STAT), Some(7));
        assert_eq!(cpu_of("42 (a) S 7"), None);
        let rollup =
            "00400000-7fff r--p 00000000 00:00 0   [rollup]\nRss:   20 kB\nPss:              12 kB\n";
        assert_eq!(field(rollup, "Pss").and_then(kilobytes), Some(12_288));
    }
}
