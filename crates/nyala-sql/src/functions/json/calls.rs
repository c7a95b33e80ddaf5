//! Functions that take texts of JSON apart.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::text::{Json, is_json, normal_json};
use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;

/// A function of JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct JsonCall {
    name: &'static str,
    aliases: Vec<String>,
    of: Of,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    /// The text itself, if it is JSON; in the normal form of JSONB or as it is.
    Checked {
        normal: bool,
    },
    /// A field or an element.
    Step {
        as_text: bool,
    },
    /// The value that several steps lead to.
    Path {
        as_text: bool,
    },
    /// Whether an object has a key, or an array has a text as an element.
    Exists,
    Kind,
    Length,
}

impl JsonCall {
    fn new(name: &'static str, aliases: &[&str], of: Of) -> Self {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Self { name, aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(), of, signature }
    }

    /// `->`
    pub fn step() -> Self {
        Self::new("json_step", &[], Of::Step { as_text: false })
    }

    /// `->>`
    pub fn step_as_text() -> Self {
        Self::new("json_step_text", &[], Of::Step { as_text: true })
    }

    /// `#>`
    pub fn path() -> Self {
        Self::new("json_extract_path", &["jsonb_extract_path"], Of::Path { as_text: false })
    }

    /// `#>>`
    pub fn path_as_text() -> Self {
        Self::new("json_extract_path_text", &["jsonb_extract_path_text"], Of::Path { as_text: true })
    }

    /// `?`
    pub fn exists() -> Self {
        Self::new("jsonb_exists", &[], Of::Exists)
    }

    /// The functions that statements may name.
    pub fn named() -> impl Iterator<Item = Arc<ScalarUDF>> {
        let calls = [
            Self::path(),
            Self::path_as_text(),
            Self::exists(),
            Self::new("json_typeof", &["jsonb_typeof"], Of::Kind),
            Self::new("json_array_length", &["jsonb_array_length"], Of::Length),
        ];
        calls.into_iter().map(|call| Arc::new(ScalarUDF::new_from_impl(call)))
    }
}

/// The text `value`, or an error if it is no JSON; `normal` is the form of JSONB.
pub fn checked_json(value: Expr, normal: bool) -> Expr {
    let name = if normal { "jsonb" } else { "json" };
    ScalarUDF::new_from_impl(JsonCall::new(name, &[], Of::Checked { normal })).call(vec![value])
}

impl ScalarUDFImpl for JsonCall {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            Of::Exists => DataType::Boolean,
            Of::Length => DataType::Int32,
            _ => DataType::Utf8View,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((value, steps)) = arguments.args.split_first() else {
            return plan_err!("`{}` takes a text of JSON", self.name);
        };
        let is_one = !matches!(self.of, Of::Path { .. });
        let wanted = usize::from(matches!(self.of, Of::Step { .. } | Of::Exists));
        if is_one && steps.len() != wanted {
            return plan_err!("`{}` takes {} arguments, not {}", self.name, wanted + 1, steps.len() + 1);
        }
        let rows = CallRows::of(&arguments);
        let texts = cast(&value.to_array(rows.count())?, &DataType::Utf8View)?;
        let steps =
            steps.iter().map(|step| Steps::of(&step.to_array(rows.count())?)).collect::<Result<Vec<_>>>()?;
        rows.value(self.answer(texts.as_string_view(), &steps)?)
    }
}

impl JsonCall {
    fn answer(&self, texts: &StringViewArray, steps: &[Steps]) -> Result<ArrayRef> {
        let rows = || texts.iter().enumerate();
        Ok(match self.of {
            Of::Checked { normal } => {
                let checked = rows().map(|(_, text)| text.map(|text| checked(text, normal)).transpose());
                Arc::new(checked.collect::<Result<StringViewArray>>()?)
            }
            Of::Step { as_text } | Of::Path { as_text } => {
                let found = rows().map(|(row, text)| {
                    let Some(found) = reached(text, steps, row)? else { return Ok(None) };
                    Ok(if as_text { found.plain() } else { Some(found.written().to_owned()) })
                });
                Arc::new(found.collect::<Result<StringViewArray>>()?)
            }
            Of::Exists => {
                let found = rows().map(|(row, text)| {
                    let key = steps.first().and_then(|steps| steps.one(row));
                    let (Some(value), Some(key)) = (text.map(valid).transpose()?, key) else {
                        return Ok(None);
                    };
                    let is_element = |element: &Json<'_>| element.plain().as_ref() == Some(&key);
                    Ok(Some(value.field(&key).is_some() || value.elements().iter().any(is_element)))
                });
                Arc::new(found.collect::<Result<BooleanArray>>()?)
            }
            Of::Kind => {
                let kinds = rows().map(|(_, text)| Ok(text.map(valid).transpose()?.map(Json::kind)));
                Arc::new(kinds.collect::<Result<StringViewArray>>()?)
            }
            Of::Length => {
                let lengths = rows().map(|(_, text)| text.map(length).transpose());
                Arc::new(lengths.collect::<Result<Int32Array>>()?)
            }
        })
    }
}

fn valid(text: &str) -> Result<Json<'_>> {
    match is_json(text) {
        true => Ok(Json::new(text)),
        false => Err(invalid("json", text).into()),
    }
}

/// The text, if it is JSON; `normal` is the form of JSONB.
///
/// # Errors
/// It is no JSON.
pub fn checked(text: &str, normal: bool) -> Result<String> {
    let found = if normal { normal_json(text) } else { is_json(text).then(|| text.to_owned()) };
    found.ok_or_else(|| invalid(if normal { "jsonb" } else { "json" }, text).into())
}

fn invalid(name: &str, text: &str) -> QueryError {
    let start: String = text.chars().take(40).collect();
    QueryError::new(ErrorKind::InvalidValue, format!("invalid input syntax for type {name}"))
        .hint(format!("the text begins with: {start}"))
}

fn length(text: &str) -> Result<i32> {
    let value = valid(text)?;
    match value.kind() {
        "array" => Ok(i32::try_from(value.elements().len()).unwrap_or(i32::MAX)),
        "object" => plan_err!("cannot get array length of a non-array"),
        _ => plan_err!("cannot get array length of a scalar"),
    }
}

/// The value that the steps of a row lead to.
fn reached<'a>(text: Option<&'a str>, steps: &[Steps], row: usize) -> Result<Option<Json<'a>>> {
    let Some(text) = text else { return Ok(None) };
    let mut value = valid(text)?;
    for steps in steps {
        let Some(next) = steps.follow(value, row) else { return Ok(None) };
        value = next;
    }
    Ok(Some(value))
}

/// An argument that says where to go, row by row.
enum Steps {
    /// Keys of objects; with `#>` and paths also numbers of elements.
    Names(ArrayRef),
    /// Numbers of elements.
    Numbers(ArrayRef),
    /// Lists of names.
    Lists(ArrayRef),
}

impl Steps {
    fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            number if number.is_integer() => Self::Numbers(cast(array, &DataType::Int64)?),
            DataType::List(_) => Self::Lists(Arc::clone(array)),
            // `#>` takes a list as a text: `{a,1}`.
            _ => Self::Names(cast(array, &DataType::Utf8View)?),
        })
    }

    fn one(&self, row: usize) -> Option<String> {
        match self {
            Self::Names(names) => {
                let names = names.as_string_view();
                names.is_valid(row).then(|| names.value(row).to_owned())
            }
            _ => None,
        }
    }

    fn follow<'a>(&self, value: Json<'a>, row: usize) -> Option<Json<'a>> {
        match self {
            Self::Names(_) => {
                let name = self.one(row)?;
                match name.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                    Some("") => Some(value),
                    Some(list) => {
                        list.split(',').try_fold(value, |value, step| value.step(step.trim_matches('"')))
                    }
                    None => value.step(&name),
                }
            }
            Self::Numbers(numbers) => {
                let numbers = numbers.as_primitive::<arrow::datatypes::Int64Type>();
                numbers.is_valid(row).then(|| numbers.value(row)).and_then(|at| value.element(at))
            }
            Self::Lists(lists) => {
                let lists = lists.as_list::<i32>();
                let names = cast(&lists.value(row), &DataType::Utf8View).ok()?;
                let names = names.as_string_view();
                names.iter().try_fold(value, |value, name| value.step(name?))
            }
        }
    }
}
