//! What this process may use of the machine: memory and processors, or less of both if its control groups say so.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Memory where neither the machine nor a control group tells it, in bytes.
const UNKNOWN_MEMORY_BYTES: usize = 4 << 30;

/// Memory of the machine or of its control groups, the least of both; 4 GiB where neither can be read.
pub fn memory_bytes() -> usize {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let total = total.map(|kib: usize| kib.saturating_mul(1024));
    total
        .into_iter()
        .chain(ControlGroups::of_this_process().memory_bytes())
        .min()
        .unwrap_or(UNKNOWN_MEMORY_BYTES)
}

/// Processors that the control groups of this process grant at a time, `1.5` for instance; none without such a limit.
pub fn processor_quota() -> Option<f64> {
    ControlGroups::of_this_process().processors()
}

/// The control groups of a process. The limit of a group holds for the groups in it, too.
struct ControlGroups {
    /// Where their folders are.
    root: PathBuf,
    /// Lines of `/proc/self/cgroup`. They name no folder where a container sees only its own group: that is at the top.
    lines: String,
}

/// The folder of a control group, in its version of the interface.
enum Folder {
    V1(PathBuf),
    V2(PathBuf),
}

impl ControlGroups {
    fn of_this_process() -> Self {
        let lines = read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { root: PathBuf::from("/sys/fs/cgroup"), lines }
    }

    /// The smallest memory limit: the kernel kills a process above it.
    fn memory_bytes(&self) -> Option<usize> {
        let limits = self.folders("memory").into_iter().filter_map(|folder| match folder {
            Folder::V1(folder) => number(&folder.join("memory.limit_in_bytes")),
            Folder::V2(folder) => number(&folder.join("memory.max")),
        });
        limits.min()
    }

    /// The smallest quota of processor time, as a number of processors.
    fn processors(&self) -> Option<f64> {
        let quotas = self.folders("cpu").into_iter().filter_map(|folder| match folder {
            Folder::V1(folder) => {
                let part = |file| number::<i64>(&folder.join(file));
                quota(part("cpu.cfs_quota_us")?, part("cpu.cfs_period_us")?)
            }
            Folder::V2(folder) => {
                let text = read_to_string(folder.join("cpu.max")).ok()?;
                let (granted, period) = text.trim().split_once(' ')?;
                quota(granted.parse().ok()?, period.parse().ok()?)
            }
        });
        quotas.min_by(f64::total_cmp)
    }

    /// The folders of the groups that a controller counts for this process, and of those around them.
    fn folders(&self, controller: &str) -> Vec<Folder> {
        let groups = self.lines.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            if controllers.is_empty() {
                return Some((group, None));
            }
            let is_counted = controllers.split(',').any(|name| name == controller);
            is_counted.then(|| (group, Some(self.root.join(controller))))
        });
        let folders = groups.flat_map(|(group, root)| {
            Path::new(group).ancestors().map(move |group| match &root {
                Some(root) => Folder::V1(root.join(group)),
                None => Folder::V2(self.root.join(group)),
            })
        });
        folders.collect()
    }
}

/// The number in a file; none if there is another word, such as `max`.
fn number<N: std::str::FromStr>(file: &Path) -> Option<N> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// Processors of a quota in microseconds of each period; a negative one is none.
#[expect(clippy::cast_precision_loss, reason = "microseconds of a second")]
fn quota(granted: i64, period: i64) -> Option<f64> {
    (granted > 0 && period > 0).then(|| granted as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Control groups of files, and the means to write more of them.
    fn groups(folder: &Path, lines: &str) -> ControlGroups {
        ControlGroups { root: folder.to_owned(), lines: lines.to_owned() }
    }

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_least_memory_of_all_control_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let check = |lines: &str, expected| {
            assert_eq!(groups(root, lines).memory_bytes(), expected, "{lines}");
        };
        check("0::/a/b\n", None);
        write(root, "a/b/memory.max", "max\n");
        check("0::/a/b\n", None);
        write(root, "a/memory.max", "3000\n");
        check("0::/a/b\n", Some(3000));
        write(root, "a/b/memory.max", "2000\n");
        check("0::/a/b\n", Some(2000));
        check("0::/\n", None);
        write(root, "memory.max", "4000\n");
        check("0::/../gone\n", Some(4000));
        write(root, "memory/memory.limit_in_bytes", "1000\n");
        check("7:cpu,cpuacct:/a\n4:memory:/docker/x\n", Some(1000));
        check("no group at all", None);
    }

    #[test]
    fn the_least_quota_of_all_control_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let check = |lines: &str, expected| {
            assert_eq!(groups(root, lines).processors(), expected, "{lines}");
        };
        check("0::/a/b\n", None);
        write(root, "a/b/cpu.max", "max 100000\n");
        check("0::/a/b\n", None);
        write(root, "a/cpu.max", "150000 100000\n");
        check("0::/a/b\n", Some(1.5));
        write(root, "a/b/cpu.max", "50000 100000\n");
        check("0::/a/b\n", Some(0.5));
        write(root, "cpu/x/cpu.cfs_quota_us", "-1\n");
        write(root, "cpu/x/cpu.cfs_period_us", "100000\n");
        check("4:cpu,cpuacct:/x\n", None);
        write(root, "cpu/x/cpu.cfs_quota_us", "400000\n");
        check("4:cpu,cpuacct:/x\n", Some(4.0));
    }
}
