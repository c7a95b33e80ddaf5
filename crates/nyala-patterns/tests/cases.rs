//! Compares the crate with the answers of a PostgreSQL 15, case by case.
//!
//! `tests/recorder/record.py` writes `tests/cases.tsv`. A line has a kind, an input, a pattern and the answer:
//! `=text`, `null`, or `!SQLSTATE message | detail | hint`, of which the last two may be missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

use nyala_patterns::{Moment, PatternError, Read, Span, Template};

#[test]
fn recorded_cases() {
    check(include_str!("cases.tsv"));
}

/// Checks the file that the environment variable PATTERNS_CASES names, which `tests/recorder/fuzz.py` sets.
#[test]
#[ignore = "needs a file of cases"]
fn cases_of_a_file() {
    let path = std::env::var("PATTERNS_CASES").expect("PATTERNS_CASES names a file of cases");
    check(&std::fs::read_to_string(path).expect("the file of cases can be read"));
}

fn check(cases: &str) {
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let columns: Vec<String> = line.split('\t').map(unescape).collect();
        let [kind, input, pattern, expected] = columns.as_slice() else { panic!("not a case: {line}") };
        let answer = answer(kind, input, pattern);
        if answer != *expected {
            wrong.push(format!(
                "{kind} {input:?} {pattern:?}\n  PostgreSQL: {expected:?}\n  this crate: {answer:?}"
            ));
        }
    }
    let total = cases.lines().count();
    assert!(wrong.is_empty(), "{} of {total} cases differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("{total} cases agree");
}

fn answer(kind: &str, input: &str, pattern: &str) -> String {
    match attempt(kind, input, pattern) {
        Ok(Some(text)) => format!("={text}"),
        Ok(None) => "null".to_owned(),
        Err(error) => {
            let parts = [error.detail.as_deref(), error.hint].into_iter().flatten();
            parts.fold(format!("!{} {}", error.sqlstate, error.message), |text, part| text + " | " + part)
        }
    }
}

fn attempt(kind: &str, input: &str, pattern: &str) -> Result<Option<String>, PatternError> {
    let is_null = pattern.is_empty() && matches!(kind, "ts" | "tz" | "iv" | "num");
    if is_null {
        assert!(Template::for_times(pattern)?.is_empty() && Template::for_numbers(pattern)?.is_empty());
        return Ok(None);
    }
    let mut out = String::from("kept ");
    match kind {
        "ts" | "tz" => Template::for_times(pattern)?.write(&moment(input), &mut out),
        "iv" => Template::for_times(pattern)?.write_span(&span(input), &mut out)?,
        "date" => {
            let read = Template::for_times(pattern)?.read_date(input)?;
            let shown = if read.year > 0 { "YYYY-MM-DD" } else { "YYYY-MM-DD BC" };
            Template::for_times(shown)?.write(&local(read), &mut out);
        }
        "time" => {
            let read = Template::for_times(pattern)?.read_timestamp(input)?;
            let moment = match read.offset_seconds {
                Some(_) => Moment::from_unix_micros(read.unix_micros(0).expect("an instant"), 0),
                None => local(read),
            };
            Template::for_times("FMYYYY-MM-DD HH24:MI:SS.US BC")?.write(&moment, &mut out);
        }
        "num" => {
            let (unscaled, scale) = Template::for_numbers(pattern)?.read_number(input)?;
            out.push_str(&decimal_text(unscaled, scale));
        }
        _ => write_number(kind, input, pattern, &mut out)?,
    }
    Ok(Some(out.strip_prefix("kept ").expect("what was there before stays").to_owned()))
}

fn write_number(kind: &str, input: &str, pattern: &str, out: &mut String) -> Result<(), PatternError> {
    let template = Template::for_numbers(pattern)?;
    match kind {
        "dec" => {
            let (unscaled, scale) = decimal(input);
            template.write_decimal(unscaled, scale, out)
        }
        "int" => template.write_integer(input.parse().expect("an integer"), out),
        "big" => template.write_bigint(input.parse().expect("an integer"), out),
        "flt" => template.write_float(input.parse().expect("a float"), out),
        "real" => template.write_real(input.parse().expect("a float"), out),
        _ => panic!("unknown kind {kind}"),
    }
}

/// `YYYY-MM-DD HH:MI:SS[.US][ BC]`, and after bars the offset and the abbreviation of the zone.
fn moment(text: &str) -> Moment {
    let mut parts = text.split('|');
    let clock = parts.next().unwrap_or_default();
    let mut words = clock.split(' ');
    let (date, time, is_before) = (words.next().unwrap(), words.next().unwrap(), words.next() == Some("BC"));
    let date: Vec<i32> = date.split('-').map(|part| part.parse().unwrap()).collect();
    let time: Vec<&str> = time.split([':', '.']).collect();
    Moment {
        year: if is_before { 1 - date[0] } else { date[0] },
        month: date[1] as u8,
        day: date[2] as u8,
        hour: time[0].parse().unwrap(),
        minute: time[1].parse().unwrap(),
        second: time[2].parse().unwrap(),
        micros: time.get(3).map_or(0, |digits| format!("{digits:0<6}").parse().unwrap()),
        offset_seconds: parts.next().map(|offset| offset.parse().unwrap()),
        zone: parts.next().map(str::to_owned),
    }
}

fn local(read: Read) -> Moment {
    let Read { year, month, day, hour, minute, second, micros, offset_seconds, .. } = read;
    Moment { year, month, day, hour, minute, second, micros, offset_seconds, zone: None }
}

/// Months, days and microseconds, by spaces.
fn span(text: &str) -> Span {
    let parts: Vec<i64> = text.split(' ').map(|part| part.parse().unwrap()).collect();
    Span { months: parts[0] as i32, days: parts[1] as i32, micros: parts[2] }
}

fn decimal(text: &str) -> (i128, u32) {
    let scale = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (text.replace('.', "").parse().unwrap(), scale as u32)
}

fn decimal_text(unscaled: i128, scale: u32) -> String {
    let scale = scale as usize;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, decimals) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{decimals}") }
}

fn unescape(column: &str) -> String {
    let mut out = String::new();
    let mut characters = column.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('v') => '\u{b}',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    out
}
