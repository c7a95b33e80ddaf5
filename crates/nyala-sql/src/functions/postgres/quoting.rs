//! Texts as they are written in SQL.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::sql::sqlparser::keywords::{ALL_KEYWORDS, RESERVED_FOR_IDENTIFIER};

use crate::functions::call_rows::CallRows;

/// `quote_literal`, `quote_ident` and `quote_nullable`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Quoted {
    of: Of,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Literal,
    Name,
    Nullable,
}

impl Quoted {
    pub fn literal() -> Self {
        Self::new(Of::Literal)
    }

    pub fn name() -> Self {
        Self::new(Of::Name)
    }

    pub fn nullable() -> Self {
        Self::new(Of::Nullable)
    }

    fn new(of: Of) -> Self {
        Self { of, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Quoted {
    fn name(&self) -> &str {
        match self.of {
            Of::Literal => "quote_literal",
            Of::Name => "quote_ident",
            Of::Nullable => "quote_nullable",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return plan_err!("`{}` takes one value", self.name());
        };
        let rows = CallRows::of(&arguments);
        let texts = cast(&value.to_array(rows.count())?, &DataType::Utf8View)?;
        let mut quoted = StringViewBuilder::with_capacity(texts.len());
        for text in texts.as_string_view() {
            match (text, self.of) {
                (Some(text), Of::Name) => quoted.append_value(name(text)),
                (Some(text), _) => quoted.append_value(literal(text)),
                (None, Of::Nullable) => quoted.append_value("NULL"),
                (None, _) => quoted.append_null(),
            }
        }
        rows.value(Arc::new(quoted.finish()))
    }
}

pub fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

pub fn name(text: &str) -> String {
    let mut signs = text.chars();
    let begins = signs.next().is_some_and(|sign| sign.is_ascii_lowercase() || sign == '_');
    let is_plain =
        begins && signs.all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_');
    let upper = text.to_uppercase();
    let is_reserved = RESERVED_FOR_IDENTIFIER.iter().any(|keyword| format!("{keyword:?}") == upper)
        || ([
            "SELECT", "FROM", "WHERE", "TABLE", "USER", "ORDER", "GROUP", "ALL", "AND", "OR", "NOT", "NULL",
        ]
        .contains(&upper.as_str())
            && ALL_KEYWORDS.contains(&upper.as_str()));
    match is_plain && !is_reserved {
        true => text.to_owned(),
        false => format!("\"{}\"", text.replace('"', "\"\"")),
    }
}
