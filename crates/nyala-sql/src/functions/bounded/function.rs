//! A wrapper of a function that refuses calls with too large a result or too long a run time.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use super::arguments::{Amount, Arguments, MAX_BYTES};
use super::pattern::check_patterns;
use super::rules::{Measure, Rule, Work};
use crate::error::{ErrorKind, QueryError};
use crate::functions::floats::check_function;

/// Bytes that one slice of a batch may give.
const SLICE_BYTES: Amount = 64 << 20;
/// Steps for one batch of rows, of some nanoseconds each: a thread cannot be taken from a function that computes.
const MAX_STEPS: Amount = 1_000_000_000;
/// Steps to look up an element among those before it.
const STEPS_OF_ELEMENT: Amount = 100;
/// States of a pattern that count as one step.
const STATES_OF_STEP: usize = 50;

/// The functions of `known` that need a bound, each with its bound.
pub fn bounded(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    known.iter().filter_map(with_bound).collect()
}

/// The function with its bound; none if it needs none, or has it already.
pub fn with_bound(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    if function.inner().is::<Bounded>() {
        return None;
    }
    match Rule::of(function.name())? {
        Rule::NoMore => None,
        rule => Some(Arc::new(ScalarUDF::from(Bounded { function: Arc::clone(function), rule }))),
    }
}

/// A function with its bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    rule: Rule,
}

impl Bounded {
    /// Refuses a call with a result that is certainly too large.
    fn check_exactly(&self, measure: Measure, arguments: &Arguments<'_>) -> Result<()> {
        let bytes = match quickly(measure, arguments) {
            Some(_) => return Ok(()),
            None => (0..arguments.rows)
                .map(|at| measure.bytes(&arguments.row(at)))
                .fold(0, Amount::saturating_add),
        };
        match bytes <= arguments.max_bytes() {
            true => Ok(()),
            false => Err(self.too_large(bytes, arguments.rows, arguments.max_bytes())),
        }
    }

    fn too_large(&self, bytes: Amount, rows: usize, most: Amount) -> DataFusionError {
        too_large(&format!("`{}`", self.name()), bytes, rows, most)
    }

    /// Splits the rows into ranges whose results take at most a slice each; none if one slice takes them all.
    fn slices(&self, measure: Measure, arguments: &Arguments<'_>) -> Result<Option<Vec<Range<usize>>>> {
        if quickly(measure, arguments).is_some() {
            return Ok(None);
        }
        let (mut slices, mut begin, mut given) = (Vec::new(), 0, 0);
        for at in 0..arguments.rows {
            let bytes = measure.bytes(&arguments.row(at));
            if bytes > arguments.max_bytes() {
                return Err(self.too_large(bytes, 1, arguments.max_bytes()));
            }
            if given + bytes > SLICE_BYTES && at > begin {
                slices.push(begin..at);
                (begin, given) = (at, 0);
            }
            given += bytes;
        }
        slices.push(begin..arguments.rows);
        Ok((slices.len() > 1).then_some(slices))
    }

    fn invoke_slices(
        &self,
        arguments: &ScalarFunctionArgs,
        slices: Vec<Range<usize>>,
    ) -> Result<ColumnarValue> {
        let (mut parts, mut bytes): (Vec<ArrayRef>, Amount) = (Vec::new(), 0);
        for rows in slices {
            let part = self.function.invoke_with_args(slice(arguments, &rows))?.into_array(rows.len())?;
            bytes += part.get_array_memory_size() as Amount;
            if bytes > MAX_BYTES {
                return Err(self.too_large(bytes, rows.end, MAX_BYTES));
            }
            parts.push(part);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    fn check_work(&self, work: Work, arguments: &Arguments<'_>, values: &[ColumnarValue]) -> Result<()> {
        let states = match (work, values.get(1)) {
            (Work::Pattern, Some(patterns)) => check_patterns(self.name(), patterns)?,
            _ => 0,
        };
        let rows = (0..arguments.rows).map(|at| arguments.row(at));
        let steps = rows.map(|row| match work {
            Work::Product => row.bytes(0) * row.bytes(1),
            Work::Elements => row.elements(0) * row.elements(1),
            Work::Distinct => (row.elements(0) + row.elements(1)) * STEPS_OF_ELEMENT,
            Work::Pattern => row.bytes(0) * (1 + states / STATES_OF_STEP) as Amount,
        });
        let steps = steps.fold(0, Amount::saturating_add);
        if steps <= MAX_STEPS {
            return Ok(());
        }
        let (name, rows) = (self.name(), arguments.rows);
        let message =
            format!("`{name}` would take {steps} steps for {rows} rows, and takes at most {MAX_STEPS}");
        Err(QueryError::new(ErrorKind::LimitExceeded, message)
            .hint("compare shorter texts, or a part of them with `left`")
            .into())
    }
}

/// The error of a call with too large a result.
pub fn too_large(what: &str, bytes: Amount, rows: usize, most: Amount) -> DataFusionError {
    let message = format!(
        "{what} would give {bytes} bytes for {rows} rows, and gives at most {most}: the requested length is too large"
    );
    QueryError::new(ErrorKind::LimitExceeded, message)
        .hint("ask for less; in FROM, `generate_series(from, to)` gives as many rows as you like")
        .into()
}

/// An upper bound of all rows' results, taken from the largest arguments, if it is small enough.
fn quickly(measure: Measure, arguments: &Arguments<'_>) -> Option<Amount> {
    let bytes = measure.bytes(&arguments.largest()).saturating_mul(arguments.rows as Amount);
    (bytes <= SLICE_BYTES.min(arguments.max_bytes())).then_some(bytes)
}

/// The arguments of some rows.
fn slice(arguments: &ScalarFunctionArgs, rows: &Range<usize>) -> ScalarFunctionArgs {
    let args = arguments.args.iter().map(|value| match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(rows.start, rows.len())),
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
    });
    ScalarFunctionArgs { args: args.collect(), number_rows: rows.len(), ..arguments.clone() }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let function = Arc::new(self.function.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Self { function, rule: self.rule }))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.function.simplify(args, context)
    }

    fn short_circuits(&self) -> bool {
        self.function.short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.function.evaluate_bounds(input)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.strictly_order_preserving(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let measured = Arguments::new(&arguments.args, arguments.number_rows);
        match self.rule {
            Rule::NoMore => {}
            Rule::Domain => {
                let (args, rows) = (arguments.args.clone(), arguments.number_rows);
                let computed = self.function.invoke_with_args(arguments)?;
                check_function(self.name(), &args, &computed, rows)?;
                return Ok(computed);
            }
            Rule::Exactly(measure) => self.check_exactly(measure, &measured)?,
            Rule::Work(work) => self.check_work(work, &measured, &arguments.args)?,
            Rule::Both(measure, work) => {
                self.check_exactly(measure, &measured)?;
                self.check_work(work, &measured, &arguments.args)?;
            }
            Rule::AtMost(measure) => {
                if measure == Measure::ReplacedPattern {
                    self.check_work(Work::Pattern, &measured, &arguments.args)?;
                }
                if let Some(slices) = self.slices(measure, &measured)? {
                    return self.invoke_slices(&arguments, slices);
                }
            }
        }
        self.function.invoke_with_args(arguments)
    }
}

#[cfg(test)]
#[path = "function_tests.rs"]
mod tests;
