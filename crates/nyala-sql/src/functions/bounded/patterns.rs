//! Patterns that differ from row to row: each is compiled by itself, which takes longer than the search for it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::pattern::{check_like_patterns, check_patterns};

/// The language of the patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    Like,
    Regex,
}

/// A function that returns its argument, or an error if this has more different patterns than may be compiled.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Patterns {
    language: Language,
    signature: Signature,
}

impl Patterns {
    pub fn new(language: Language) -> Self {
        Self { language, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Patterns {
    fn name(&self) -> &str {
        "checked_patterns"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [pattern] => Ok(pattern.clone()),
            _ => plan_err!("`checked_patterns` takes one argument, not {}", types.len()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(patterns) = arguments.args.pop() else {
            return plan_err!("`checked_patterns` takes one argument");
        };
        match self.language {
            Language::Like => check_like_patterns(&patterns)?,
            Language::Regex => check_patterns("~", &patterns).map(drop)?,
        }
        Ok(patterns)
    }
}
