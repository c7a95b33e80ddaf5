//! The cost of a regular expression: counted repetitions multiply their operand, and each pattern is compiled by
//! itself.

use std::collections::HashSet;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::error::{ErrorKind, QueryError};

/// Most states of one pattern, about.
const MAX_STATES: usize = 50_000;
/// States that the different patterns of one batch may have together.
const MAX_STATES_OF_BATCH: usize = 300_000;
/// Least states that a pattern counts as: to compile the smallest takes some ten microseconds.
const MIN_STATES: usize = 100;
/// A class of characters of all languages: some hundred ranges of bytes.
const CLASS_STATES: usize = 200;

/// States of the largest pattern; an error if it, or all of them, would take too long to compile.
pub fn check_patterns(function: &str, patterns: &ColumnarValue) -> Result<usize> {
    match patterns {
        ColumnarValue::Scalar(value) => check_pattern(function, value.try_as_str().flatten().unwrap_or("")),
        ColumnarValue::Array(array) => {
            let texts = cast(array, &DataType::LargeUtf8)?;
            let texts = texts.as_string::<i64>();
            let different: HashSet<&str> = texts.iter().flatten().collect();
            let (mut all, mut largest) = (0, 0);
            for pattern in &different {
                let states = check_pattern(function, pattern)?;
                all += states.max(MIN_STATES);
                largest = largest.max(states);
            }
            if all > MAX_STATES_OF_BATCH {
                return Err(too_many(function, different.len(), all, texts.len()).into());
            }
            Ok(largest)
        }
    }
}

/// An error if the different patterns of LIKE, but for those that are compared without being compiled, would take too long to compile.
pub fn check_like_patterns(patterns: &ColumnarValue) -> Result<()> {
    let ColumnarValue::Array(array) = patterns else { return Ok(()) };
    let texts = cast(array, &DataType::LargeUtf8)?;
    let texts = texts.as_string::<i64>();
    let compiled: HashSet<&str> = texts.iter().flatten().filter(|pattern| is_compiled(pattern)).collect();
    let states: usize = compiled.iter().map(|pattern| pattern.len().max(MIN_STATES)).sum();
    match states <= MAX_STATES_OF_BATCH {
        true => Ok(()),
        false => Err(too_many("LIKE", compiled.len(), states, texts.len()).into()),
    }
}

/// Whether a pattern of LIKE is compiled: it has a wildcard besides one `%` at either end.
fn is_compiled(pattern: &str) -> bool {
    let inner = pattern.strip_prefix('%').unwrap_or(pattern);
    let inner = inner.strip_suffix('%').unwrap_or(inner);
    inner.contains(['%', '_', '\\'])
}

fn too_many(function: &str, patterns: usize, states: usize, rows: usize) -> QueryError {
    let message = format!(
        "`{function}` would compile {patterns} different patterns of about {states} states for {rows} rows, more than the {MAX_STATES_OF_BATCH} states allowed"
    );
    QueryError::new(ErrorKind::LimitExceeded, message)
        .hint("use one pattern for many rows, or compare with `strpos`, `starts_with` or `=`")
}

/// States of a pattern; an error if there are too many.
pub fn check_pattern(function: &str, pattern: &str) -> Result<usize> {
    let states = states(pattern);
    if states <= MAX_STATES {
        return Ok(states);
    }
    let message =
        format!("pattern of `{function}` has about {states} states, more than the {MAX_STATES} allowed");
    Err(QueryError::new(ErrorKind::LimitExceeded, message)
        .hint("repeat less in it: `{n}` makes n copies of what it follows")
        .into())
}

/// States of a pattern, about. A malformed pattern is refused when it is compiled.
fn states(pattern: &str) -> usize {
    let mut groups = vec![Group::default()];
    let mut rest = pattern.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '(' => groups.push(Group::default()),
            ')' if groups.len() > 1 => {
                let inner = groups.pop().map_or(0, |group| group.total());
                add(&mut groups, inner);
            }
            '\\' => {
                let is_class = rest.next().is_some_and(|class| "wWdDsSpPbB".contains(class));
                add(&mut groups, if is_class { CLASS_STATES } else { 1 });
            }
            '[' => {
                let mut wide = rest.peek() == Some(&'^');
                let mut size = 1;
                while let Some(member) = rest.next().filter(|member| *member != ']') {
                    wide |= member == '\\';
                    size += 1;
                    if member == '\\' {
                        rest.next();
                    }
                }
                add(&mut groups, if wide { CLASS_STATES } else { size });
            }
            '{' => {
                let counts: String = std::iter::from_fn(|| rest.next().filter(|char| *char != '}')).collect();
                let times = counts.split(',').filter_map(|count| count.trim().parse().ok()).max();
                repeat(&mut groups, times.unwrap_or(1));
            }
            '.' => add(&mut groups, 10),
            _ => add(&mut groups, 1),
        }
    }
    groups.iter().map(Group::total).fold(0, usize::saturating_add)
}

fn add(groups: &mut [Group], states: usize) {
    if let Some(group) = groups.last_mut() {
        group.before = group.total();
        group.last = states;
    }
}

fn repeat(groups: &mut [Group], times: usize) {
    if let Some(group) = groups.last_mut() {
        group.last = group.last.saturating_mul(times.max(1));
    }
}

/// The states of one pair of brackets.
#[derive(Default)]
struct Group {
    /// States before the last part, which a count may repeat.
    before: usize,
    last: usize,
}

impl Group {
    fn total(&self) -> usize {
        self.before.saturating_add(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply() {
        let check = |pattern, least: usize, most: usize| {
            assert!((least..=most).contains(&states(pattern)), "{pattern}: {}", states(pattern));
        };
        check("abc", 3, 3);
        check(r"^\d{4}-\d{2}-\d{2}$", 8 * CLASS_STATES, 9 * CLASS_STATES);
        check("a{1000}", 1000, 1000);
        check("a{2,1000}b", 1001, 1001);
        check("((a{100}){100}){100}", 1_000_000, 1_000_000);
        check("[a-z]{10}", 40, 50);
        check("[^<>]+", CLASS_STATES, CLASS_STATES + 1);
        check("(((((", 0, 0);
        check(r"{9999999999999999999999}\", 0, 10);
        check(&"(a{99}){99}".repeat(10), 98_010, 98_010);
    }
}
