//! `regexp_replace` with all of PostgreSQL's arguments.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::Captures;

use super::compiled::{Compiled, byte_of, is_global, matches};
use super::language::translated;
use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;
use crate::functions::plain::{Call, is_text, is_whole, no_function};

/// `regexp_replace(text, pattern, replacement [, start [, n]] [, flags])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Replace {
    /// DataFusion's function, which is faster with one pattern for all rows.
    other: Arc<ScalarUDF>,
    signature: Signature,
}

impl Replace {
    /// Replaces `regexp_replace` among the functions of `known`.
    pub fn over(known: &[Arc<ScalarUDF>]) -> Option<Arc<ScalarUDF>> {
        let other = known.iter().find(|function| function.name() == "regexp_replace").cloned()?;
        let signature = Signature::user_defined(Volatility::Immutable);
        Some(Arc::new(ScalarUDF::from(Self { other, signature })))
    }

    /// The arguments for DataFusion's function, if it gives the same result for them.
    fn for_other(arguments: &ScalarFunctionArgs) -> Result<Option<ScalarFunctionArgs>> {
        let [texts, ColumnarValue::Scalar(pattern), ColumnarValue::Scalar(by)] = arguments.args.as_slice()
        else {
            return Ok(None);
        };
        let (Some(Some(pattern)), Some(Some(by))) = (pattern.try_as_str(), by.try_as_str()) else {
            return Ok(None);
        };
        let is_plain = !by.contains('$') && !by.contains(r"\&") && !by.contains(r"\\");
        if !is_plain || !matches!(texts, ColumnarValue::Array(_)) {
            return Ok(None);
        }
        let pattern = ScalarValue::Utf8View(Some(translated(pattern)?));
        let args = vec![
            texts.clone(),
            ColumnarValue::Scalar(pattern),
            arguments
                .args
                .get(2)
                .cloned()
                .unwrap_or(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(String::new())))),
        ];
        Ok(Some(ScalarFunctionArgs { args, ..arguments.clone() }))
    }
}

impl ScalarUDFImpl for Replace {
    fn name(&self) -> &str {
        "regexp_replace"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fits = |wanted: &str| {
            types.len() == wanted.len()
                && types.iter().zip(wanted.chars()).all(|(data_type, wanted)| match wanted {
                    't' => is_text(data_type),
                    _ => is_whole(data_type),
                })
        };
        let wanted = ["ttt", "tttt", "ttti", "tttii", "tttiit"].into_iter().find(|wanted| fits(wanted));
        let Some(wanted) = wanted else { return Err(no_function("regexp_replace", types).into()) };
        let typed = |wanted| if wanted == 't' { DataType::Utf8View } else { DataType::Int64 };
        Ok(wanted.chars().map(typed).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(arguments) = Self::for_other(&arguments)? {
            return self.other.invoke_with_args(arguments);
        }
        let rows = CallRows::of(&arguments);
        let arrays = rows.columns(&arguments.args)?;
        let call = Call { arrays: &arrays, config: &arguments.config_options };
        rows.value(replaced(&call)?)
    }
}

fn replaced(call: &Call<'_>) -> Result<ArrayRef> {
    let has_flags = |at: usize| call.arrays.get(at).is_some_and(|array| array.data_type().is_string());
    let (flags, start) = if has_flags(3) { (3, 9) } else { (5, 3) };
    let (texts, patterns, by) = (call.texts(0)?, call.texts(1)?, call.texts(2)?);
    let (starts, flags_of) = (call.integers(start, 1)?, call.texts(flags)?);
    let has_number = call.arrays.len() > 4;
    let numbers = call.integers(if has_number { 4 } else { 9 }, 1)?;
    let mut compiled = Compiled::default();
    let mut built = StringViewBuilder::with_capacity(call.rows());
    let mut out = String::new();
    for row in 0..call.rows() {
        let is_null = call.arrays.iter().any(|array| array.is_null(row));
        let (Some(Some(start)), Some(Some(number)), false) = (starts.get(row), numbers.get(row), is_null)
        else {
            built.append_null();
            continue;
        };
        let flags = if call.arrays.len() > flags { flags_of.value(row) } else { "" };
        let number = match has_number {
            true => *number,
            // Without a number the first match is replaced, or all matches if the flag `g` is set.
            false => i64::from(!is_global(flags)),
        };
        if *start < 1 || number < 0 {
            let (what, value) = if *start < 1 { ("start", *start) } else { ("n", number) };
            let message = format!("invalid value for parameter \"{what}\": {value}");
            return Err(QueryError::new(ErrorKind::InvalidParameter, message).into());
        }
        let regex = compiled.of(patterns.value(row), flags)?;
        let text = texts.value(row);
        out.clear();
        replace_in(
            &mut out,
            text,
            byte_of(text, *start).unwrap_or(text.len() + 1),
            number,
            by.value(row),
            regex,
        );
        built.append_value(&out);
    }
    Ok(Arc::new(built.finish()))
}

/// Replaces the match of a number from 1 on, or all if it is 0.
fn replace_in(out: &mut String, text: &str, from: usize, number: i64, by: &str, regex: &regex::Regex) {
    let mut copied = 0;
    for (captures, at) in matches(regex, text, from).zip(1_i64..) {
        if number != 0 && at < number {
            continue;
        }
        let Some(whole) = captures.get(0) else { break };
        out.push_str(text.get(copied..whole.start()).unwrap_or_default());
        fill_in(out, by, &captures);
        copied = whole.end();
        if number != 0 {
            break;
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
}

/// Writes the replacement: `\1` is what the first group matches, `\&` all, and `\\` a backslash.
fn fill_in(out: &mut String, by: &str, captures: &Captures<'_>) {
    let mut signs = by.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            out.push(sign);
            continue;
        }
        let part = |group: usize| captures.get(group).map_or("", |part| part.as_str());
        match signs.next() {
            Some('&') => out.push_str(part(0)),
            Some(digit @ '1'..='9') => out.push_str(part(digit as usize - '0' as usize)),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
}
