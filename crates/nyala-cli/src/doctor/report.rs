//! The results as lines for people, and as a JSON document for programs.

use serde_json::{Value, json};

use super::check::{Check, State};

/// A line for each check, and one for what to do next where there is something to do.
pub fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.subject.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        text += &format!("{:<7}  {:<width$}  {}\n", word(check.state), check.subject, check.found);
        if let Some(next) = &check.next {
            text += &format!("{:<7}  {:<width$}  next: {next}\n", "", "");
        }
    }
    text
}

/// `{"ok": …, "checks": [{"subject", "state", "found", "next"}, …]}`; `ok` is false if a check failed.
pub fn document(checks: &[Check]) -> Value {
    let check = |check: &Check| {
        json!({
            "subject": check.subject,
            "state": word(check.state),
            "found": check.found,
            "next": check.next,
        })
    };
    let ok = checks.iter().all(|check| check.state != State::Failed);
    json!({ "ok": ok, "checks": checks.iter().map(check).collect::<Vec<_>>() })
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> [Check; 2] {
        [
            Check::ok("clock", "right"),
            Check::failed("data folder", "it is a file", "choose another `data_dir`"),
        ]
    }

    #[test]
    fn a_line_tells_what_was_found_and_the_next_what_to_do() {
        let expected = "\
ok       clock        right
failed   data folder  it is a file
                      next: choose another `data_dir`
";
        assert_eq!(text(&checks()), expected);
    }

    #[test]
    fn a_program_sees_whether_a_check_failed() {
        let document = document(&checks());
        assert_eq!(document["ok"], false);
        assert_eq!(document["checks"][0]["next"], Value::Null);
        assert_eq!(document["checks"][1]["state"], "failed");
        assert_eq!(super::document(&[Check::warning("clock", "late", "set it")])["ok"], true);
    }
}
