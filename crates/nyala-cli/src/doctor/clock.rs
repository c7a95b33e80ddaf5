//! The clock of this machine, beside those of the database and the bucket, and the times of files.

use std::path::Path;
use std::time::{Duration, SystemTime};

use nyala_storage::data_dir::catalog_file;

use super::check::Check;

const SUBJECT: &str = "clock";
/// Larger differences confuse logs, ages of files and expiry of tokens; a bucket refuses requests beyond some minutes.
const MAX_DIFFERENCE: Duration = Duration::from_secs(30);

/// Another clock, read just now.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    whose: &'static str,
    difference: Difference,
}

/// By how much the clock of this machine is before or behind another.
#[derive(Debug, Clone, Copy)]
enum Difference {
    Ahead(Duration),
    Behind(Duration),
}

impl Clock {
    /// A clock that shows this time now.
    pub fn read(whose: &'static str, at: SystemTime) -> Self {
        Self { whose, difference: difference(SystemTime::now(), at) }
    }
}

fn difference(own: SystemTime, other: SystemTime) -> Difference {
    match own.duration_since(other) {
        Ok(ahead) => Difference::Ahead(ahead),
        Err(behind) => Difference::Behind(behind.duration()),
    }
}

/// When the catalog's file in a data folder was last written; none if there is none.
pub fn newest_file(data_dir: &Path) -> Option<SystemTime> {
    catalog_file(data_dir).metadata().and_then(|found| found.modified()).ok()
}

/// Compares with other clocks, and with the time at which a file of the data folder was written.
pub fn check(others: &[Clock], written: Option<SystemTime>) -> Check {
    let next = "let the system set it, for instance by `timedatectl set-ntp true`";
    let too_far = others.iter().find(|clock| match clock.difference {
        Difference::Ahead(by) | Difference::Behind(by) => by > MAX_DIFFERENCE,
    });
    if let Some(Clock { whose, difference }) = too_far {
        let (by, way) = match difference {
            Difference::Ahead(by) => (by, "ahead of"),
            Difference::Behind(by) => (by, "behind"),
        };
        return Check::warning(SUBJECT, format!("{} seconds {way} {whose}", by.as_secs()), next);
    }
    let is_behind = |written| matches!(difference(SystemTime::now(), written), Difference::Behind(by) if by > MAX_DIFFERENCE);
    if written.is_some_and(is_behind) {
        return Check::warning(SUBJECT, "behind the time at which the catalog was last written", next);
    }
    match others.iter().map(|clock| clock.whose).collect::<Vec<_>>() {
        whose if whose.is_empty() => Check::ok(SUBJECT, "not behind the files of the data folder"),
        whose => Check::ok(SUBJECT, format!("as {}", whose.join(" and "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_clock_may_differ_a_little() {
        let now = SystemTime::now();
        let minutes = |count: u64| Duration::from_secs(count * 60);
        let clock = |at| Clock::read("that of the bucket", at);
        let judge = |others: &[Clock], written, expected, words: &str| {
            let found = check(others, written);
            assert!(found.state == expected && found.found.contains(words), "{found:?}");
        };
        judge(&[], None, State::Ok, "not behind");
        judge(&[], Some(now - minutes(60)), State::Ok, "not behind");
        judge(&[], Some(now + minutes(60)), State::Warning, "last written");
        judge(&[clock(now)], None, State::Ok, "as that of the bucket");
        judge(&[clock(now), clock(now - minutes(10))], None, State::Warning, "ahead of that of the bucket");
        judge(&[clock(now + minutes(10))], None, State::Warning, "seconds behind that of the bucket");
    }
}
