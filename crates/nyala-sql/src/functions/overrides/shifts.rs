//! LEAD and LAG: looking ahead batch by batch, DataFusion counts rows without NULL wrongly, and it takes LAG
//! to look back even if its offset is negative.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

const LAG: &str = "lag";

/// The functions among `known` that give a value of another row.
pub fn shifts(known: &[Arc<WindowUDF>]) -> Vec<Arc<WindowUDF>> {
    let shifts = known.iter().filter(|function| matches!(function.name(), "lead" | LAG));
    shifts.map(|function| Arc::new(WindowUDF::new_from_impl(Shift(Arc::clone(function))))).collect()
}

/// LEAD or LAG that looks ahead for values other than NULL once it has its whole partition.
///
/// The evaluator of DataFusion 55 that is given a partition piece by piece loses count of NULLs
/// (<https://github.com/apache/datafusion/issues/25471>; no release has the fix yet). What it gives for a whole partition is right.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift(Arc<WindowUDF>);

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.inner().expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let ignores_nulls = arguments.ignore_nulls();
        let inner = self.0.inner().partition_evaluator(arguments)?;
        // The evaluator is causal if it looks back.
        match ignores_nulls && !inner.is_causal() {
            true => Ok(Box::new(WholePartition(inner))),
            false => Ok(inner),
        }
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.0.inner().simplify()
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.0.inner().field(arguments)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.0.inner().sort_options()
    }

    fn coerce_types(&self, argument_types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(argument_types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.0.inner().reverse_expr() {
            ReversedUDWF::Reversed(function) => {
                ReversedUDWF::Reversed(Arc::new(WindowUDF::new_from_impl(Self(function))))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.inner().documentation()
    }

    /// How a LIMIT above the window may be pushed below it. LAG looks ahead if its offset is negative.
    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        let looks_back = |offset: &Arc<dyn PhysicalExpr>| {
            let offset = offset.downcast_ref::<Literal>().map(Literal::value);
            matches!(offset, Some(ScalarValue::Int64(Some(0..))))
        };
        if self.name() == LAG && !arguments.get(1).is_none_or(looks_back) {
            return LimitEffect::Unknown;
        }
        self.0.inner().limit_effect(arguments)
    }
}

/// An evaluator that is given whole partitions only.
#[derive(Debug)]
struct WholePartition(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for WholePartition {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}
