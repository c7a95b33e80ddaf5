//! Counts and ranks of rows are signed: DataFusion's are unsigned, for which PostgreSQL has no type.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// Functions that count rows, with the types of their results.
const COUNTS: &[(&str, DataType)] = &[
    ("row_number", DataType::Int64),
    ("rank", DataType::Int64),
    ("dense_rank", DataType::Int64),
    ("ntile", DataType::Int32),
];

/// The functions among `known` that count, with signed results.
pub fn signed_counts(known: &[Arc<WindowUDF>]) -> Vec<Arc<WindowUDF>> {
    let signed = known.iter().filter_map(|function| {
        let (_, to) = COUNTS.iter().find(|(name, _)| *name == function.name())?;
        let signed = SignedCount { function: Arc::clone(function), to: to.clone() };
        Some(Arc::new(WindowUDF::new_from_impl(signed)))
    });
    signed.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SignedCount {
    function: Arc<WindowUDF>,
    to: DataType,
}

impl WindowUDFImpl for SignedCount {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.function.inner().expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.function.inner().partition_evaluator(arguments)?;
        Ok(Box::new(Signed { inner, to: self.to.clone() }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.function.inner().simplify()
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.function.inner().field(arguments)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(self.to.clone())))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.function.inner().sort_options()
    }

    fn coerce_types(&self, argument_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(argument_types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.function.inner().reverse_expr() {
            ReversedUDWF::Reversed(function) => {
                let reversed = SignedCount { function, to: self.to.clone() };
                ReversedUDWF::Reversed(Arc::new(WindowUDF::new_from_impl(reversed)))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.inner().documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.function.inner().limit_effect(arguments)
    }
}

/// The evaluator of a window function, with its counts as signed numbers.
#[derive(Debug)]
struct Signed {
    inner: Box<dyn PartitionEvaluator>,
    to: DataType,
}

impl PartitionEvaluator for Signed {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all(values, rows)?, &self.to)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)?.cast_to(&self.to)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate_all_with_rank(rows, ranks)?, &self.to)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
