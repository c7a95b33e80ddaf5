//! Functions of PostgreSQL that DataFusion has not, or has under another name.

mod ages;
mod arithmetic;
mod choices;
mod format;
mod lists;
mod numerals;
mod quoting;
mod ranked;
mod series;
mod types;
mod uuids;

use std::sync::Arc;

use datafusion::functions_aggregate::variance::var_samp_udaf;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use ages::{Age, MakeTimestamp};
use arithmetic::{Arithmetic, WidthBucket};
pub use choices::Choice;
use quoting::Quoted;
use types::PgTypeof;
pub use types::name_of as type_name;
pub use uuids::{UUID, Uuids, read_uuid, uuid_texts, uuids_of};

/// Scalar functions; `known` has those that get another name.
pub fn scalars(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    let renamed = [("signum", "sign"), ("ceil", "ceiling")];
    let renamed = renamed.into_iter().filter_map(|(name, other)| {
        let function = known.iter().find(|function| function.name() == name)?;
        Some(Arc::new(function.as_ref().clone().with_aliases([other])))
    });
    let own = [
        ScalarUDF::from(Arithmetic::modulo()),
        ScalarUDF::from(Arithmetic::whole_quotient()),
        ScalarUDF::from(WidthBucket::new()),
        ScalarUDF::from(Quoted::literal()),
        ScalarUDF::from(Quoted::name()),
        ScalarUDF::from(Quoted::nullable()),
        ScalarUDF::from(PgTypeof::new()),
        ScalarUDF::from(Uuids::random()),
        ScalarUDF::from(Age::new()),
        ScalarUDF::from(MakeTimestamp::new(false)),
        ScalarUDF::from(MakeTimestamp::new(true)),
    ];
    let mut functions: Vec<Arc<ScalarUDF>> = renamed.chain(own.into_iter().map(Arc::new)).collect();
    functions.extend(format::functions());
    functions.extend(lists::functions(known));
    functions.extend(numerals::functions());
    functions.extend(ranked::functions());
    functions.extend(series::functions());
    functions
}

/// Aggregates under another name.
pub fn aggregates() -> [Arc<AggregateUDF>; 1] {
    [Arc::new(var_samp_udaf().as_ref().clone().with_aliases(["variance"]))]
}
