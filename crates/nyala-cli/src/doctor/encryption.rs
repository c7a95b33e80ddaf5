//! Certificate and key: whether they fit each other, and how long they are good for.

use std::time::{Duration, SystemTime};

use nyala_model::config::TlsConfig;
use nyala_server::check::{Validity, check_encryption};

use super::check::Check;
use super::configuration::is_readable_by_all;

const SUBJECT: &str = "encryption";
/// A certificate is to be renewed so long before its end.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY);
const DAY: u64 = 24 * 3600;

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
    let renew = "renew the files of `server.tls`, and restart the server";
    if now < validity.from {
        let next = "wait, or check the clock of this machine";
        return Check::failed(SUBJECT, "the certificate is not valid yet", next);
    }
    let Ok(left) = validity.until.duration_since(now) else {
        return Check::failed(SUBJECT, "the certificate is not valid any more", renew);
    };
    let found = format!("the certificate is valid for {} more days", left.as_secs() / DAY);
    if left < RENEW_BEFORE { Check::warning(SUBJECT, found, renew) } else { Check::ok(SUBJECT, found) }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_certificate_is_good_between_its_two_times() {
        let day = |number: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(number * DAY);
        let validity = Validity { from: day(100), until: day(200) };
        let check = |now, expected, words: &str| {
            let found = judge(validity, now);
            assert!(found.state == expected && found.found.contains(words), "{found:?}");
        };
        check(day(99), State::Failed, "not valid yet");
        check(day(100), State::Ok, "100 more days");
        check(day(171), State::Warning, "29 more days");
        check(day(201), State::Failed, "not valid any more");
    }
}
