//! Metrics of the process, under the names that clients of Prometheus in other languages give them. Without `/proc` there are none.

use std::fmt::{Display, Write};

/// Clock ticks per second of the times in `/proc`: `USER_HZ` of proc(5), which is 100 on every architecture of Linux in use.
const TICKS: f64 = 100.0;

/// The metrics in Prometheus' text format.
pub fn render() -> String {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{file}")).unwrap_or_default();
    let (status, stat, limits) = (read("self/status"), read("self/stat"), read("self/limits"));
    let mut text = String::new();
    gauge(&mut text, "process_resident_memory_bytes", "Resident memory of the process.", resident(&status));
    gauge(&mut text, "process_open_fds", "Files and connections that are open.", open_files());
    gauge(&mut text, "process_max_fds", "Files and connections that may be open.", max_files(&limits));
    let started = booted(&read("stat")).zip(field(&stat, 22)).map(|(booted, after)| booted + after / TICKS);
    gauge(&mut text, "process_start_time_seconds", "When the process began, in seconds since 1970.", started);
    let used = field(&stat, 14).zip(field(&stat, 15)).map(|(user, system)| (user + system) / TICKS);
    write_metric(&mut text, "process_cpu_seconds_total", "counter", "Processor time of the process.", used);
    text
}

fn gauge(text: &mut String, name: &str, meaning: &str, value: Option<impl Display>) {
    write_metric(text, name, "gauge", meaning, value);
}

fn write_metric(text: &mut String, name: &str, kind: &str, meaning: &str, value: Option<impl Display>) {
    let Some(value) = value else { return };
    // Writing to a text does not fail.
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {value}\n");
}

/// Resident memory in bytes, from `/proc/self/status`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn open_files() -> Option<usize> {
    // One of the open files is the folder that is listed.
    std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1))
}

/// The soft limit of open files, from `/proc/self/limits`; none if there is no limit.
fn max_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the system began, in seconds since 1970, from `/proc/stat`.
fn booted(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// A field of `/proc/self/stat` by its number in proc(5), from 3 on.
fn field(stat: &str, number: usize) -> Option<f64> {
    // The second field is the name of the program in brackets, which may have spaces and brackets in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read_as_the_manual_says() {
        assert_eq!(resident("Name:\tnyala\nVmRSS:\t    2048 kB\nThreads:\t4\n"), Some(2_097_152));
        assert_eq!(resident("Name:\tnyala\n"), None);
        let limits = |value: &str| {
            format!("Limit   Soft Limit   Hard Limit\nMax open files   {value}   524288   files\n")
        };
        assert_eq!(max_files(&limits("1024")), Some(1024));
        assert_eq!(max_files(&limits("unlimited")), None);
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\nprocesses 7\n"), Some(1_700_000_000.0));
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 12345 1 2";
        assert_eq!([14, 15, 22].map(|number| field(stat, number)), [Some(150.0), Some(50.0), Some(12345.0)]);
        assert_eq!((field(stat, 99), field("", 14)), (None, None));
    }

    #[test]
    fn what_is_not_known_has_no_line() {
        let mut text = String::new();
        gauge(&mut text, "a", "First.", Some(1.5));
        gauge(&mut text, "b", "Second.", None::<u64>);
        assert_eq!(text, "# HELP a First.\n# TYPE a gauge\na 1.5\n\n");
    }
}
