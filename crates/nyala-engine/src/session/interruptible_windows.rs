//! Aggregates over windows fail once their statement must end.
//!
//! DataFusion computes all windows of a partition within one poll. A function that takes time in proportion to its
//! window, such as a median or a list, takes hours for some hundred thousand rows then, and could not be cancelled.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, SetMonotonicity, Signature,
    WindowFunctionDefinition,
};

use super::yielding::check_statement;

/// The plan with aggregates over windows that check whether their statement must end.
pub fn interruptible_windows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(_) => node.map_expressions(|expr| expr.transform_up(interruptible)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// The function within an interruptible one; none for any other function.
pub fn interrupted(function: &AggregateUDF) -> Option<&Arc<AggregateUDF>> {
    function.inner().downcast_ref::<Interruptible>().map(|interruptible| &interruptible.function)
}

fn interruptible(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let WindowFunction { fun, .. } = call.as_mut();
    let WindowFunctionDefinition::AggregateUDF(function) = fun else {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    };
    if function.inner().is::<Interruptible>() {
        return Ok(Transformed::no(Expr::WindowFunction(call)));
    }
    let wrapped = AggregateUDF::from(Interruptible { function: Arc::clone(function) });
    *fun = WindowFunctionDefinition::AggregateUDF(Arc::new(wrapped));
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}

/// A function that computes as another does, and checks in between whether its statement must end.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Interruptible {
    function: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Interruptible {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn window_function_schema_name(&self, parameters: &WindowFunctionParams) -> Result<String> {
        self.function.window_function_schema_name(parameters)
    }

    fn window_function_display_name(&self, parameters: &WindowFunctionParams) -> Result<String> {
        self.function.window_function_display_name(parameters)
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(argument_types)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.function.inner().return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.function.inner().is_nullable()
    }

    fn coerce_types(&self, argument_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(argument_types)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.function.inner().state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Asks(self.function.accumulator(arguments)?)))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Asks(self.function.create_sliding_accumulator(arguments)?)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.function.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.function.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::NotSupported => ReversedUDAF::NotSupported,
            ReversedUDAF::Reversed(function) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Self { function })))
            }
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.function.inner().is_descending()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.inner().default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.function.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.function.supports_within_group_clause()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.function.inner().set_monotonicity(data_type)
    }
}

#[derive(Debug)]
struct Asks(Box<dyn Accumulator>);

impl Accumulator for Asks {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        check_statement()?;
        self.0.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        check_statement()?;
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}
