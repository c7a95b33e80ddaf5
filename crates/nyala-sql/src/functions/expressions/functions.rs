//! Functions that find what a regular expression matches.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, ListBuilder, StringBuilder, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use regex::{Captures, Regex};

use super::compiled::{Compiled, byte_of, is_global, matches};
use super::similar::similar_inner;
use crate::error::{ErrorKind, QueryError};
use crate::functions::plain::{Call, Plain, is_text, is_whole};

/// The functions, by name.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = |_: &[DataType]| DataType::Utf8View;
    let number = |_: &[DataType]| DataType::Int32;
    vec![
        Plain::udf("regexp_substr", |types| typed(types, "ttiiti"), text, substrings),
        Plain::udf("regexp_substring", |types| typed(types, "tt"), text, first_parts),
        Plain::udf("regexp_count", |types| typed(types, "ttit"), number, counts),
        Plain::udf("regexp_instr", |types| typed(types, "ttiiiti"), number, places),
        Plain::udf("regexp_split_to_array", |types| typed(types, "ttt"), |_| list(DataType::Utf8), splits),
        Plain::udf("regexp_matches", |types| typed(types, "ttt"), |_| list(list(DataType::Utf8)), all_parts),
        Plain::udf("similar_substring", |types| typed(types, "ttt"), text, similar_parts),
    ]
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// The types of arguments: `t` is a text, `i` a whole number. At least two are given.
pub fn typed(types: &[DataType], wanted: &str) -> Option<Vec<DataType>> {
    if types.len() < 2 || types.len() > wanted.len() {
        return None;
    }
    let pairs = types.iter().zip(wanted.chars());
    pairs
        .map(|(data_type, wanted)| match wanted {
            't' if is_text(data_type) => Some(DataType::Utf8View),
            'i' if is_whole(data_type) => Some(DataType::Int64),
            _ => None,
        })
        .collect()
}

/// Texts with their patterns and flags.
struct Rows {
    texts: StringViewArray,
    patterns: StringViewArray,
    flags: StringViewArray,
    /// Whether there is an argument with flags.
    has_flags: bool,
    compiled: Compiled,
}

impl Rows {
    fn of(call: &Call<'_>, flags: usize) -> Result<Self> {
        Ok(Self {
            texts: call.texts(0)?,
            patterns: call.texts(1)?,
            flags: call.texts(flags)?,
            has_flags: call.arrays.len() > flags,
            compiled: Compiled::default(),
        })
    }

    /// The text, the expression and the flags of a row; none if one of them is NULL.
    fn at(&mut self, row: usize) -> Result<Option<(&str, &Regex, &str)>, QueryError> {
        let is_known = self.texts.is_valid(row)
            && self.patterns.is_valid(row)
            && (!self.has_flags || self.flags.is_valid(row));
        if !is_known {
            return Ok(None);
        }
        let flags = if self.has_flags { self.flags.value(row) } else { "" };
        let regex = self.compiled.of(self.patterns.value(row), flags)?;
        Ok(Some((self.texts.value(row), regex, flags)))
    }
}

fn positive(number: i64, what: &str, least: i64) -> Result<i64, QueryError> {
    match number >= least {
        true => Ok(number),
        false => {
            let message = format!("invalid value for parameter \"{what}\": {number}");
            Err(QueryError::new(ErrorKind::InvalidParameter, message))
        }
    }
}

/// The matches that rows ask for: the character where the search begins, the number of the match, and the number of a group.
struct Asked {
    starts: Vec<Option<i64>>,
    numbers: Vec<Option<i64>>,
    parts: Vec<Option<i64>>,
}

impl Asked {
    fn of(call: &Call<'_>, part: usize) -> Result<Self> {
        Ok(Self {
            starts: call.integers(2, 1)?,
            numbers: call.integers(3, 1)?,
            parts: call.integers(part, 0)?,
        })
    }

    /// The part of the match that a row asks for; none if there is none, or a number is NULL.
    fn find<'t>(
        &self,
        row: usize,
        regex: &'t Regex,
        text: &'t str,
    ) -> Result<Option<regex::Match<'t>>, QueryError> {
        let asked = (self.starts.get(row), self.numbers.get(row), self.parts.get(row));
        let (Some(Some(start)), Some(Some(number)), Some(Some(part))) = asked else { return Ok(None) };
        let start = positive(*start, "start", 1)?;
        let number = positive(*number, "n", 1)?;
        let part = positive(*part, "subexpr", 0)?;
        let (Some(from), Ok(skipped), Ok(part)) =
            (byte_of(text, start), usize::try_from(number - 1), usize::try_from(part))
        else {
            return Ok(None);
        };
        Ok(matches(regex, text, from).nth(skipped).and_then(|captures| captures.get(part)))
    }
}

fn substrings(call: &Call<'_>) -> Result<ArrayRef> {
    let (mut rows, asked) = (Rows::of(call, 4)?, Asked::of(call, 5)?);
    let mut found = StringViewBuilder::with_capacity(call.rows());
    for row in 0..call.rows() {
        let part = match rows.at(row)? {
            Some((text, regex, _)) => asked.find(row, regex, text)?.map(|part| part.as_str().to_owned()),
            None => None,
        };
        found.append_option(part);
    }
    Ok(Arc::new(found.finish()))
}

/// The match of the first group, or of the whole expression if it has no group.
fn first_parts(call: &Call<'_>) -> Result<ArrayRef> {
    let mut rows = Rows::of(call, 2)?;
    let mut found = StringViewBuilder::with_capacity(call.rows());
    for row in 0..call.rows() {
        let part = rows.at(row)?.and_then(|(text, regex, _)| {
            let captures = regex.captures(text)?;
            let group = usize::from(regex.captures_len() > 1);
            Some(captures.get(group)?.as_str())
        });
        found.append_option(part);
    }
    Ok(Arc::new(found.finish()))
}

fn counts(call: &Call<'_>) -> Result<ArrayRef> {
    let (mut rows, starts) = (Rows::of(call, 3)?, call.integers(2, 1)?);
    let counts = (0..call.rows()).map(|row| {
        let Some((text, regex, _)) = rows.at(row)? else { return Ok(None) };
        let Some(Some(start)) = starts.get(row) else { return Ok(None) };
        let from = byte_of(text, positive(*start, "start", 1)?);
        let count = from.map_or(0, |from| matches(regex, text, from).count());
        Ok(i32::try_from(count).ok())
    });
    Ok(Arc::new(counts.collect::<Result<Int32Array, QueryError>>()?))
}

fn places(call: &Call<'_>) -> Result<ArrayRef> {
    let (mut rows, asked) = (Rows::of(call, 5)?, Asked::of(call, 6)?);
    let ends = call.integers(4, 0)?;
    let places = (0..call.rows()).map(|row| {
        let Some((text, regex, _)) = rows.at(row)? else { return Ok(None) };
        let Some(Some(end)) = ends.get(row) else { return Ok(None) };
        if !(0..=1).contains(end) {
            positive(-1, "endoption", 0)?;
        }
        let part = asked.find(row, regex, text)?;
        let byte = part.map(|part| if *end == 1 { part.end() } else { part.start() });
        let place = byte.and_then(|byte| text.get(..byte)).map_or(0, |before| before.chars().count() + 1);
        Ok(i32::try_from(place).ok())
    });
    Ok(Arc::new(places.collect::<Result<Int32Array, QueryError>>()?))
}

fn splits(call: &Call<'_>) -> Result<ArrayRef> {
    let mut rows = Rows::of(call, 2)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..call.rows() {
        let Some((text, regex, _)) = rows.at(row)? else {
            lists.append_null();
            continue;
        };
        let mut begin = 0;
        for captures in matches(regex, text, 0) {
            let Some(whole) = captures.get(0) else { continue };
            // An empty match at either end, or behind another match, splits nothing.
            if whole.is_empty() && (whole.start() == begin || whole.end() == text.len()) {
                continue;
            }
            lists.values().append_value(text.get(begin..whole.start()).unwrap_or_default());
            begin = whole.end();
        }
        lists.values().append_value(text.get(begin..).unwrap_or_default());
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// A list of matches, each with what its groups match.
fn all_parts(call: &Call<'_>) -> Result<ArrayRef> {
    let mut rows = Rows::of(call, 2)?;
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for row in 0..call.rows() {
        let Some((text, regex, flags)) = rows.at(row)? else {
            lists.append_null();
            continue;
        };
        let most = if is_global(flags) { usize::MAX } else { 1 };
        for captures in matches(regex, text, 0).take(most) {
            append_parts(lists.values(), &captures);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn append_parts(parts: &mut ListBuilder<StringBuilder>, captures: &Captures<'_>) {
    let skipped = usize::from(captures.len() > 1);
    for part in captures.iter().skip(skipped) {
        parts.values().append_option(part.map(|part| part.as_str()));
    }
    parts.append(true);
}

/// `substring(text FROM pattern FOR escape)`: the part of the text that matches the pattern between its two marks.
fn similar_parts(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns, escapes) = (call.texts(0)?, call.texts(1)?, call.texts(2)?);
    let mut compiled = Compiled::default();
    let mut found = StringViewBuilder::with_capacity(call.rows());
    for row in 0..call.rows() {
        if texts.is_null(row) || patterns.is_null(row) || escapes.is_null(row) {
            found.append_null();
            continue;
        }
        let regex = compiled.of(&between_marks(patterns.value(row), escapes.value(row)), "")?;
        let captures = regex.captures(texts.value(row));
        let part = captures.as_ref().and_then(|captures| captures.get(1));
        found.append_option(part.map(|part| part.as_str()));
    }
    Ok(Arc::new(found.finish()))
}

/// The regular expression of a pattern; its first group is the part between the marks, or the whole pattern.
fn between_marks(pattern: &str, escape: &str) -> String {
    let similar = |part: &str| similar_inner(part, escape.chars().next().unwrap_or('\\'));
    let mark = format!("{escape}\"");
    let parts: Vec<&str> = if escape.is_empty() { vec![pattern] } else { pattern.split(&mark).collect() };
    match parts.as_slice() {
        [before, within, after] => {
            // The part before the mark is as short as possible.
            let before = similar(before).replace(".*", ".*?");
            format!("(?s)^(?:{before})({})(?:{})$", similar(within), similar(after))
        }
        _ => format!("(?s)^({})$", similar(pattern)),
    }
}
