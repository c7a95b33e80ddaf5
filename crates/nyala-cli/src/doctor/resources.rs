//! Memory, processors and file descriptors: what the system grants, and what the configuration takes.

use nyala_engine::Limits;
use nyala_model::config::{Config, ServerConfig};
use nyala_model::size_text::show_size;

use super::check::Check;

/// Room that a process needs beside what it counts: buffers of the network, stacks, code. In per cent of its limit.
const UNCOUNTED_PERCENT: u64 = 10;
/// File descriptors for files, in addition to those for connections.
const FILES: u64 = 1000;

pub fn check(config: &Config) -> Vec<Check> {
    let limits = Limits::of(&config.query);
    let mut checks =
        vec![memory(config.query.memory_limit_bytes as u64, &limits, beside(config)), processors(&limits)];
    // Without this file the system is another than Linux.
    let file = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    checks.extend(open_file_limit(&file).map(|limit| open_files(limit, &config.server)));
    checks
}

/// Memory that is granted in addition to the memory limit, in bytes.
fn beside(config: &Config) -> u64 {
    let cache = &config.cache;
    let caches = [cache.plans_bytes, cache.results_bytes, config.storage.cache.memory_bytes];
    caches.into_iter().fold(config.live.memory_limit_bytes, |sum, bytes| sum.saturating_add(bytes as u64))
}

fn memory(configured: u64, limits: &Limits, beside: u64) -> Check {
    const SUBJECT: &str = "memory";
    let Limits { machine_bytes, process_bytes, memory_bytes, .. } = *limits;
    let shown = show_size(memory_bytes);
    if configured > machine_bytes {
        let found = format!(
            "`query.memory_limit_bytes` is {shown}, and this process may use {}",
            show_size(machine_bytes)
        );
        return Check::failed(SUBJECT, found, "lower it, or set it to 0 for 60 % of what there is");
    }
    let found = format!(
        "{shown} for cuboids, queries and builds, {} in addition, of {}",
        show_size(beside),
        show_size(process_bytes)
    );
    let usable = process_bytes - process_bytes / 100 * UNCOUNTED_PERCENT;
    if memory_bytes.saturating_add(beside) > usable {
        let next = "lower `query.memory_limit_bytes`, `live.memory_limit_bytes` or the caches: near its limit \
                    the server ends the largest statement";
        return Check::warning(SUBJECT, found, next);
    }
    Check::ok(SUBJECT, found)
}

fn processors(limits: &Limits) -> Check {
    const SUBJECT: &str = "processors";
    let threads = limits.threads;
    let Some(quota) = limits.processor_quota else {
        return Check::ok(SUBJECT, format!("{threads} threads of each kind, no quota"));
    };
    let found = format!("{threads} threads of each kind, and a quota of {quota:.1} processors");
    if threads as f64 > quota.ceil() {
        let next =
            "set `query.threads` to 0, or grant more: the system stops all threads when the quota is used up";
        return Check::warning(SUBJECT, found, next);
    }
    Check::ok(SUBJECT, found)
}

/// The soft limit of open files in a text as of `/proc/self/limits`.
fn open_file_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn open_files(limit: u64, server: &ServerConfig) -> Check {
    const SUBJECT: &str = "open files";
    let of_a_door = (server.max_connections as u64).saturating_add(server.max_pending_connections as u64);
    let wanted = of_a_door.saturating_mul(doors(server)).saturating_add(FILES);
    if limit < wanted {
        let found = format!("at most {limit}, and connections and files may need {wanted}");
        let next =
            "set `LimitNOFILE=65536` in the unit of systemd, or run `ulimit -n 65536` before the server";
        return Check::warning(SUBJECT, found, next);
    }
    Check::ok(SUBJECT, format!("connections and files may need {wanted}, and have more"))
}

/// PostgreSQL and HTTP are always served.
fn doors(server: &ServerConfig) -> u64 {
    2 + u64::from(server.flight_listen.is_some()) + u64::from(server.kylin_listen.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    const GIB: u64 = 1 << 30;

    fn limits(machine_bytes: u64, memory_bytes: u64) -> Limits {
        Limits {
            machine_bytes,
            process_bytes: machine_bytes,
            memory_bytes,
            threads: 4,
            processor_quota: None,
        }
    }

    #[test]
    fn memory_has_to_fit_into_what_the_process_may_use() {
        let check = |configured, memory_bytes, beside, expected| {
            let found = memory(configured, &limits(10 * GIB, memory_bytes), beside);
            assert_eq!(found.state, expected, "{found:?}");
        };
        check(0, 6 * GIB, GIB, State::Ok);
        check(9 * GIB, 9 * GIB, 0, State::Ok);
        check(9 * GIB, 9 * GIB, GIB, State::Warning);
        check(11 * GIB, 11 * GIB, 0, State::Failed);
        check(0, 6 * GIB, u64::MAX, State::Warning);
    }

    #[test]
    fn threads_have_to_fit_into_the_quota() {
        let check = |processor_quota, expected| {
            let found = processors(&Limits { processor_quota, ..limits(GIB, GIB) });
            assert_eq!(found.state, expected, "{found:?}");
        };
        check(None, State::Ok);
        check(Some(4.0), State::Ok);
        check(Some(3.5), State::Ok);
        check(Some(2.0), State::Warning);
    }

    #[test]
    fn the_soft_limit_of_files_counts() {
        let check = |line: &str, limit| {
            let text = format!(
                "Limit            Soft Limit  Hard Limit  Units\n{line}\nMax locked memory 1 2 bytes\n"
            );
            assert_eq!(open_file_limit(&text), limit, "{line}");
        };
        check("Max open files   1024        524288      files", Some(1024));
        check("Max open files   unlimited   unlimited   files", Some(u64::MAX));
        check("Max file size    1           2           bytes", None);
        let server = ServerConfig::default();
        assert_eq!(open_files(1024, &server).state, State::Warning);
        assert_eq!(open_files(5048, &server).state, State::Ok);
        let flight =
            ServerConfig { flight_listen: Some(([127, 0, 0, 1], 50051).into()), ..ServerConfig::default() };
        assert_eq!(open_files(5048, &flight).state, State::Warning);
        assert_eq!(open_files(7072, &flight).state, State::Ok);
    }
}
