//! Functions of PostgreSQL over the facts of the newest snapshot, row by row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use nyala_sql::functions::CallRows;

use super::cells::{Cell, Kind, array, type_of};
use super::database::Database;
use super::static_names::StaticNames;

/// The objects that functions look up: those of the newest snapshot, and PostgreSQL's own types and functions.
#[derive(Debug, Clone, Default)]
pub struct Current {
    database: Arc<RwLock<Option<Arc<Database>>>>,
    pub names: Arc<StaticNames>,
}

impl Current {
    pub fn set(&self, database: Arc<Database>) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
    }

    fn get(&self) -> Option<Arc<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One call: the values of its arguments in one row.
pub struct Call<'a> {
    pub database: &'a Database,
    pub names: &'a StaticNames,
    /// The schema of names without one.
    pub schema: &'a str,
    arguments: &'a [Argument],
    row: usize,
}

/// An argument as text and, if it is a number, as a number.
struct Argument {
    texts: ArrayRef,
    numbers: Option<ArrayRef>,
}

impl Argument {
    fn of(array: &ArrayRef) -> Result<Self> {
        let is_number = array.data_type().is_integer();
        let numbers = is_number.then(|| cast(array, &DataType::Int64)).transpose()?;
        Ok(Self { texts: cast(array, &DataType::Utf8)?, numbers })
    }
}

impl Call<'_> {
    /// How many arguments there are.
    pub fn count(&self) -> usize {
        self.arguments.len()
    }

    /// An argument as text; none if it is NULL.
    pub fn text(&self, at: usize) -> Option<&str> {
        let texts = &self.arguments.get(at)?.texts;
        texts.is_valid(self.row).then(|| texts.as_string::<i32>().value(self.row))
    }

    /// An argument as a number; none if it is NULL, or no number.
    pub fn number(&self, at: usize) -> Option<i64> {
        match &self.arguments.get(at)?.numbers {
            Some(numbers) => {
                numbers.is_valid(self.row).then(|| numbers.as_primitive::<Int64Type>().value(self.row))
            }
            None => self.text(at)?.trim().parse().ok(),
        }
    }

    /// An argument as an object identifier.
    pub fn oid(&self, at: usize) -> Option<i32> {
        i32::try_from(self.number(at)?).ok()
    }
}

type Body = fn(&Call<'_>) -> Result<Cell>;

/// A function over the catalog. Two are equal if their names are.
pub struct CatalogFunction {
    name: &'static str,
    signature: Signature,
    returns: Kind,
    body: Body,
    current: Current,
}

impl CatalogFunction {
    /// A function that takes as many arguments as one of `counts`.
    pub fn udf(
        name: &'static str,
        counts: &[usize],
        returns: Kind,
        body: Body,
        current: &Current,
    ) -> ScalarUDF {
        let signatures = counts.iter().map(|count| TypeSignature::Any(*count)).collect();
        let signature = Signature::one_of(signatures, Volatility::Stable);
        ScalarUDF::new_from_impl(Self { name, signature, returns, body, current: current.clone() })
    }
}

impl fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(type_of(self.returns))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&args);
        let arguments = rows.columns(&args.args)?.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        let Some(database) = self.current.get() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&type_of(self.returns))?));
        };
        let schema = args.config_options.catalog.default_schema.as_str();
        let mut cells = Vec::with_capacity(rows.count());
        for row in 0..rows.count() {
            let names = &self.current.names;
            let call = Call { database: &database, names, schema, arguments: &arguments, row };
            cells.push(vec![(self.body)(&call)?]);
        }
        rows.value(array(&cells, 0, self.returns))
    }
}
