//! Marks of columns of the system catalog: types that PostgreSQL tells apart and Arrow does not.
//!
//! ```text
//! typtype::text     a letter is a text when it is cast, and has the mark no more
//! indkey[0]         the elements of a vector are counted from 0
//! indkey::text      and its text has blanks
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::functions_nested::length::array_length_udf;
use datafusion::functions_nested::range::gen_series_udf;
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};

use super::{Meaning, Scope};

/// The key of a field's metadata that names its type in PostgreSQL.
pub const MARK: &str = "nyala.type";

/// The key by which `arrow-pg` marks texts of one letter.
const LETTER: &str = "pg.char";

/// Functions whose second argument is the number of an element.
const BY_NUMBER: [&str; 1] = ["array_element"];

/// Functions that give numbers of elements.
const NUMBERS: [&str; 2] = ["array_lower", "array_upper"];

/// The function that gives the numbers of all elements as a list.
const SUBSCRIPTS: &str = "generate_subscripts";

/// Removes the marks of values that are cast, and counts elements of vectors from 0.
#[derive(Debug)]
pub struct Marks;

impl Meaning for Marks {
    fn name(&self) -> &'static str {
        "marks"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Cast(Cast { expr, .. }) => matches!(**expr, Expr::Column(_)),
            Expr::ScalarFunction(call) => {
                let name = call.name();
                BY_NUMBER.contains(&name) || NUMBERS.contains(&name) || name == SUBSCRIPTS
            }
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        match expr {
            Expr::Cast(Cast { expr: value, field }) => match mark_of(&value, scope) {
                Some(mark) if is_vector(&mark) && field.data_type().is_string() => {
                    Ok(Transformed::yes(array_to_string_udf().call(vec![*value, lit(" ")])))
                }
                Some(_) => {
                    let cast = Expr::Cast(Cast { expr: value, field });
                    Ok(Transformed::yes(ScalarUDF::new_from_impl(Unmarked::default()).call(vec![cast])))
                }
                None => Ok(Transformed::no(Expr::Cast(Cast { expr: value, field }))),
            },
            Expr::ScalarFunction(ScalarFunction { func, args }) => match args.as_slice() {
                [vector, dimension]
                    if func.name() == SUBSCRIPTS
                        && mark_of(vector, scope).is_some_and(|mark| is_vector(&mark)) =>
                {
                    Ok(Transformed::yes(from_zero(&func, vector, dimension)?))
                }
                [vector, number] if mark_of(vector, scope).is_some_and(|mark| is_vector(&mark)) => {
                    let (vector, number) = (vector.clone(), number.clone());
                    Ok(Transformed::yes(match BY_NUMBER.contains(&func.name()) {
                        true => func.call(vec![vector, cast(number, DataType::Int64) + lit(1_i64)]),
                        false => cast(func.call(vec![vector, number]), DataType::Int32) - lit(1_i32),
                    }))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))),
            },
            other => Ok(Transformed::no(other)),
        }
    }
}

/// The numbers of the elements of a vector, as a list of the type that `subscripts` gives.
fn from_zero(subscripts: &ScalarUDF, vector: &Expr, dimension: &Expr) -> Result<Expr> {
    let last = cast(array_length_udf().call(vec![vector.clone(), dimension.clone()]), DataType::Int64);
    let numbers = gen_series_udf().call(vec![lit(0_i64), last - lit(1_i64)]);
    Ok(cast(numbers, subscripts.return_type(&[DataType::new_list(DataType::Int16, true), DataType::Int64])?))
}

fn is_vector(mark: &str) -> bool {
    mark.ends_with("vector")
}

/// The mark of a value, if it has one.
fn mark_of(value: &Expr, scope: &Scope<'_>) -> Option<String> {
    if !matches!(value, Expr::Column(_)) {
        return None;
    }
    let metadata = value.metadata(scope.schema).ok()?.to_hashmap();
    metadata.get(MARK).or_else(|| metadata.get(LETTER)).cloned()
}

/// A function that returns its argument without its mark.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unmarked {
    signature: Signature,
}

impl Default for Unmarked {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Unmarked {
    fn name(&self) -> &str {
        "unmarked"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [data_type] => Ok(data_type.clone()),
            _ => internal_err!("`unmarked` takes one value"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match arguments.arg_fields {
            [field] => Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), true))),
            _ => internal_err!("`unmarked` takes one value"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("`unmarked` takes one value"),
        }
    }
}
