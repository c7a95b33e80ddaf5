//! Whether the machine, or the control group of this process, is short of memory.

use std::path::Path;

/// Memory is short if work waited for it in this share of the last ten seconds, in per cent.
const STALLED_PERCENT: f64 = 10.0;

/// Available memory of the machine, in bytes: `MemAvailable` of `/proc/meminfo`.
pub fn available_bytes(meminfo: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok())?;
    Some(kib.saturating_mul(1024))
}

/// Whether work waited for memory, by the pressure stall information of the control group of this process
/// (version 2) or else of the machine. False if the kernel keeps none. `root` is the file system's root.
pub fn is_stalled(root: &Path) -> bool {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let group = own.map(|group| root.join("sys/fs/cgroup").join(group).join("memory.pressure"));
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let text = group.and_then(|path| read(&path)).or_else(|| read(&root.join("proc/pressure/memory")));
    text.and_then(|text| stalled_percent(&text)).is_some_and(|percent| percent >= STALLED_PERCENT)
}

/// `some avg10=…`.
fn stalled_percent(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("avg10=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_control_group_says_whether_work_stands_still_and_else_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let lines = |percent: &str| {
            format!(
                "some avg10={percent} avg60=90.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 total=0\n"
            )
        };
        assert!(!is_stalled(folder.path()), "the kernel keeps none");
        write("proc/pressure/memory", &lines("12.50"));
        assert!(is_stalled(folder.path()));
        write("proc/self/cgroup", "4:memory:/a\n0::/b\n");
        write("sys/fs/cgroup/b/memory.pressure", &lines("3.00"));
        assert!(!is_stalled(folder.path()), "its own group does not wait");
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("meminfo");
        assert_eq!(available_bytes(&file), None);
        std::fs::write(&file, "MemTotal:  100 kB\nMemFree: 7 kB\nMemAvailable:   42 kB\n").unwrap();
        assert_eq!(available_bytes(&file), Some(42 << 10));
    }
}
