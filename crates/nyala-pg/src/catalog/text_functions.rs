//! PostgreSQL functions that make texts and codes of values: `pg_size_pretty`, `pg_char_to_encoding`,
//! `json_build_object`.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

/// PostgreSQL's number of UTF-8.
const UTF8: i32 = 6;

/// Adds the functions to a context.
pub fn register(context: &SessionContext) {
    let functions = [
        TextFunction::new("pg_size_pretty", Signature::any(1, Volatility::Immutable), DataType::Utf8, sizes),
        TextFunction::new(
            "pg_char_to_encoding",
            Signature::string(1, Volatility::Immutable),
            DataType::Int32,
            encodings,
        ),
        TextFunction::new(
            "json_build_object",
            Signature::variadic_any(Volatility::Stable),
            DataType::Utf8,
            objects,
        ),
    ];
    for function in functions {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

type Body = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function over arrays. Two are equal if their names are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    body: BodyOf,
}

/// The code of a function. Comparisons ignore it, because the name identifies the function.
#[derive(Clone, Copy)]
struct BodyOf(Body);

impl std::fmt::Debug for BodyOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl PartialEq for BodyOf {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for BodyOf {}

impl Hash for BodyOf {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl TextFunction {
    fn new(name: &'static str, signature: Signature, returns: DataType, body: Body) -> Self {
        Self { name, signature, returns, body: BodyOf(body) }
    }
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Result<Vec<ArrayRef>> =
            args.args.iter().map(|value| value.to_array(args.number_rows)).collect();
        (self.body.0)(&arrays?).map(ColumnarValue::Array)
    }
}

fn sizes(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [bytes] = arguments else {
        return exec_err!("pg_size_pretty takes one number");
    };
    let bytes = cast(bytes, &DataType::Int64)?;
    let texts: StringArray =
        bytes.as_primitive::<Int64Type>().iter().map(|bytes| bytes.map(size_text)).collect();
    Ok(Arc::new(texts))
}

/// Units change at ten thousand, as in PostgreSQL, so that three digits or more stay visible.
fn size_text(bytes: i64) -> String {
    let mut size = bytes;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if size.unsigned_abs() < 10 * 1024 || unit == "TB" {
            return format!("{size} {unit}");
        }
        // Rounds half away from zero.
        size = (size + size.signum() * 512) / 1024;
    }
    format!("{size} PB")
}

fn encodings(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [names] = arguments else {
        return exec_err!("pg_char_to_encoding takes one name");
    };
    let names = cast(names, &DataType::Utf8)?;
    let code = |name: &str| match name.to_ascii_lowercase().replace('-', "").as_str() {
        "utf8" | "unicode" => UTF8,
        _ => -1,
    };
    let codes: Int32Array = names.as_string::<i32>().iter().map(|name| name.map(code)).collect();
    Ok(Arc::new(codes))
}

/// JSON objects of names and values in turn.
fn objects(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    if !arguments.len().is_multiple_of(2) {
        return exec_err!("json_build_object takes names and values in turn");
    }
    let rows = arguments.first().map_or(0, |array| array.len());
    let options = FormatOptions::default();
    let formatters: Vec<ArrayFormatter<'_>> = arguments
        .iter()
        .map(|array| ArrayFormatter::try_new(array.as_ref(), &options))
        .collect::<std::result::Result<_, _>>()?;
    let mut texts = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut members = Vec::new();
        for (arrays, formatters) in arguments.chunks(2).zip(formatters.chunks(2)) {
            if let ([_, values], [name, value]) = (arrays, formatters) {
                let name = serde_json::Value::from(name.value(row).try_to_string()?);
                members.push(format!("{name} : {}", json(values, row, &value.value(row).try_to_string()?)));
            }
        }
        texts.push(format!("{{{}}}", members.join(", ")));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

fn json(array: &ArrayRef, row: usize, text: &str) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    match array.data_type() {
        DataType::Boolean => text.to_owned(),
        data_type if data_type.is_numeric() => text.to_owned(),
        _ => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_read_as_in_postgresql() {
        let check = |bytes, text| assert_eq!(size_text(bytes), text);
        check(0, "0 bytes");
        check(10_239, "10239 bytes");
        check(10_240, "10 kB");
        check(-20_000, "-20 kB");
        check(123_456_789, "118 MB");
    }

    #[test]
    fn objects_are_json() {
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a\"", "b"]));
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let texts = objects(&[names.clone(), values]).unwrap();
        assert_eq!(texts.as_string::<i32>().value(0), "{\"a\\\"\" : 1}");
        assert_eq!(texts.as_string::<i32>().value(1), "{\"b\" : null}");
        assert!(objects(&[names]).is_err());
    }
}
