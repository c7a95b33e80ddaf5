//! Certificate and key: whether they fit each other, and how long they are good for.

use std::time::{Duration, SystemTime};

use nyala_model::config::TlsConfig;
use nyala_server::check::{Validity, check_encryption};

use super::check::Check;
use super::configuration::is_readable_by_all;

const SUBJECT: &str = "encryption";
/// A certificate is to be renewed so long before its end, or with this part of its lifetime left if that is less: some are valid for
/// hours only. Programs such as cert-manager renew earlier than that.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY);
const RENEW_PART: u32 = 3;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const TWO_DAYS: u64 = 2 * DAY;

pub fn check(tls: &TlsConfig) -> Vec<Check> {
    let validity = match check_encryption(tls) {
        Ok(None) => return vec![Check::ok(SUBJECT, "none")],
        Ok(Some(validity)) => validity,
        Err(error) => return vec![Check::error(SUBJECT, error)],
    };
    let mut checks = vec![judge(validity, SystemTime::now())];
    if is_readable_by_all(&tls.key) {
        let key = tls.key.display();
        let found = format!("all users may read `{key}`");
        checks.push(Check::warning("private key", found, format!("run `chmod o-r {key}`")));
    }
    checks
}

fn judge(validity: Validity, now: SystemTime) -> Check {
    let renew = "renew the files of `server.tls`: the server takes them while it runs";
    if now < validity.from {
        let next = "wait, or check the clock of this machine";
        return Check::failed(SUBJECT, "the certificate is not valid yet", next);
    }
    let Ok(left) = validity.until.duration_since(now) else {
        return Check::failed(SUBJECT, "the certificate is not valid any more", renew);
    };
    let found = format!("the certificate is valid for {}", show_left(left));
    let lifetime = validity.until.duration_since(validity.from).unwrap_or_default();
    if left < RENEW_BEFORE.min(lifetime / RENEW_PART) {
        Check::warning(SUBJECT, found, renew)
    } else {
        Check::ok(SUBJECT, found)
    }
}

fn show_left(left: Duration) -> String {
    match left.as_secs() {
        seconds @ ..TWO_DAYS => format!("{} more hours", seconds / HOUR),
        seconds => format!("{} more days", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_certificate_is_good_between_its_two_times() {
        let hour = |number: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(number * HOUR);
        let day = |number: u64| hour(number * 24);
        let check = |(from, until), now, expected, words: &str| {
            let found = judge(Validity { from, until }, now);
            assert!(found.state == expected && found.found.contains(words), "{found:?}");
        };
        let of_months = (day(100), day(200));
        check(of_months, day(99), State::Failed, "not valid yet");
        check(of_months, day(100), State::Ok, "100 more days");
        check(of_months, day(171), State::Warning, "29 more days");
        check(of_months, day(201), State::Failed, "not valid any more");
        let of_a_day = (hour(0), hour(24));
        check(of_a_day, hour(15), State::Ok, "9 more hours");
        check(of_a_day, hour(17), State::Warning, "7 more hours");
    }
}
