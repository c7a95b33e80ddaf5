//! Functions that give one of their arguments, which all have one type: a text in quotes has the type of the others.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// The names of the functions.
const CHOICES: &[&str] = &["coalesce", "greatest", "least"];

/// One of these functions. The planner asks for its type before texts in quotes are read as values of the
/// others' type, and DataFusion finds none for `coalesce(day, '2000-01-01')`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Choice(Arc<ScalarUDF>);

impl Choice {
    /// Replaces those of `known`.
    pub fn over(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
        let last = CHOICES.iter().filter_map(|name| known.iter().rfind(|function| function.name() == *name));
        last.map(|function| Arc::new(ScalarUDF::from(Self(Arc::clone(function))))).collect()
    }
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_other = |data_type: &&DataType| !data_type.is_string() && **data_type != DataType::Null;
        let Some(other) = types.iter().find(is_other).filter(|other| is_scalar(other)) else {
            return self.0.coerce_types(types);
        };
        let read =
            |data_type: &DataType| if data_type.is_string() { other.clone() } else { data_type.clone() };
        self.0.coerce_types(&types.iter().map(read).collect::<Vec<_>>())
    }

    fn is_strict(&self) -> bool {
        self.0.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, context)
    }

    fn short_circuits(&self) -> bool {
        self.0.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.conditional_arguments(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(arguments)
    }
}

/// Whether texts in quotes are read as values of the type.
fn is_scalar(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || *data_type == DataType::Boolean
}
