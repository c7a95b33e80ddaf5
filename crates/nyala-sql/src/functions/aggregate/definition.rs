//! From the description of an aggregate to a function that DataFusion knows.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::groups::Grouped;
use super::kind::Kind;
use super::single::Single;

/// An aggregate function: its name, its types, and how to compute it. Its value is never null.
pub trait Definition: Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The name in SQL.
    fn name(&self) -> &'static str;

    /// The suffix of the state column's name.
    fn state_name(&self) -> &'static str;

    /// The types that arguments are converted to, or an error with the types that the function takes.
    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>>;

    /// The type of the value, for converted arguments.
    fn returns(&self, types: &[DataType]) -> Result<DataType>;

    /// The value of no rows.
    fn empty(&self, returns: &DataType) -> Result<ScalarValue>;

    /// The accumulators that compute the function.
    fn accumulators(&self, arguments: &AccumulatorArgs<'_>) -> Result<Accumulators>;
}

/// The two accumulators of an aggregate, which run the same code.
pub struct Accumulators {
    grouped: Box<dyn GroupsAccumulator>,
    single: Box<dyn Accumulator>,
}

impl Accumulators {
    /// Both accumulators of a kind.
    pub fn of<K: Kind>(kind: K) -> Self {
        let single = Box::new(Single::new(kind.fresh()));
        Self { grouped: Box::new(Grouped::new(kind)), single }
    }
}

impl Debug for Accumulators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accumulators").finish_non_exhaustive()
    }
}

/// The function for a definition.
pub fn aggregate(definition: impl Definition) -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::from(Defined { definition, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Defined<D> {
    definition: D,
    signature: Signature,
}

impl<D: Definition> AggregateUDFImpl for Defined<D> {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Lets wrong types pass, since an error from here reaches the user wrapped in a guess about
    /// candidates and without its hint; `return_type` is asked next.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.definition.coerce(types).unwrap_or_else(|_| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.definition.returns(&self.definition.coerce(types)?)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.definition.empty(data_type)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format_state_name(arguments.name, self.definition.state_name());
        Ok(vec![Arc::new(Field::new(name, DataType::LargeBinary, false))])
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.definition.accumulators(&arguments)?.single)
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.definition.accumulators(&arguments)?.grouped)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
