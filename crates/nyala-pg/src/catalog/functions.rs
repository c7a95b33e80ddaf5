//! System functions of PostgreSQL that tools call and neither DataFusion nor datafusion-pg-catalog has.

use std::hash::Hash;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;

use super::text_functions;
use crate::backends::BACKENDS;
use crate::{SERVER_VERSION, backends};

/// The owner of every object, and of the server's data.
pub const OWNER: &str = "nyala";

/// Functions that are NULL: they describe comments, indexes, rules, triggers and the like, which do not exist.
const NOTHING: &[(&str, &[usize])] = &[
    ("acldefault", &[2]),
    ("col_description", &[2]),
    ("obj_description", &[1, 2]),
    ("pg_get_function_arguments", &[1]),
    ("pg_get_function_identity_arguments", &[1]),
    ("pg_get_function_result", &[1]),
    ("pg_get_functiondef", &[1]),
    ("pg_get_partition_constraintdef", &[1]),
    ("pg_get_ruledef", &[1, 2]),
    ("pg_get_serial_sequence", &[2]),
    ("pg_get_triggerdef", &[1, 2]),
    ("shobj_description", &[2]),
];

/// Sizes that are not recorded.
const UNKNOWN_SIZES: &[(&str, &[usize])] = &[
    ("pg_database_size", &[1]),
    ("pg_indexes_size", &[1]),
    ("pg_relation_size", &[1, 2]),
    ("pg_table_size", &[1]),
    ("pg_tablespace_size", &[1]),
    ("pg_total_relation_size", &[1]),
];

/// Functions that are true: they ask whether objects are visible that only pg_catalog has.
const ALWAYS: &[(&str, &[usize])] = &[
    ("pg_collation_is_visible", &[1]),
    ("pg_conversion_is_visible", &[1]),
    ("pg_function_is_visible", &[1]),
    ("pg_opclass_is_visible", &[1]),
    ("pg_operator_is_visible", &[1]),
    ("pg_opfamily_is_visible", &[1]),
    ("pg_statistics_obj_is_visible", &[1]),
    ("pg_ts_config_is_visible", &[1]),
    ("pg_ts_dict_is_visible", &[1]),
    ("pg_type_is_visible", &[1]),
];

/// Functions that give the time when the server started.
const BEGINNINGS: &[(&str, &[usize])] = &[("pg_conf_load_time", &[0]), ("pg_postmaster_start_time", &[0])];

/// Functions that are false: there is no replication, and there are no temporary schemas.
const NEVER: &[(&str, &[usize])] = &[("pg_is_in_recovery", &[0]), ("pg_is_other_temp_schema", &[1])];

/// Adds the functions to a context.
pub fn register(context: &SessionContext) {
    let constants = [
        (NOTHING, ScalarValue::Utf8(None)),
        (ALWAYS, ScalarValue::Boolean(Some(true))),
        (NEVER, ScalarValue::Boolean(Some(false))),
        (UNKNOWN_SIZES, ScalarValue::Int64(None)),
        (&[("pg_tablespace_location", &[1])], ScalarValue::from("")),
        (&[("version", &[0_usize] as &[usize])], ScalarValue::from(format!("PostgreSQL {SERVER_VERSION}"))),
        (&[("getdatabaseencoding", &[0])], ScalarValue::from("UTF8")),
        (BEGINNINGS, ScalarValue::TimestampMicrosecond(Some(BACKENDS.begun_us), Some("+00:00".into()))),
        // Statements never wait for locks.
        (
            &[("pg_blocking_pids", &[1]), ("pg_safe_snapshot_blocking_pids", &[1])],
            ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Int32)),
        ),
        (&[("pg_my_temp_schema", &[0])], ScalarValue::Int32(Some(0))),
    ];
    for (names, value) in constants {
        for (name, counts) in names {
            context.register_udf(ScalarUDF::new_from_impl(Constant::new(name, counts, value.clone())));
        }
    }
    backends::register(context);
    text_functions::register(context);
}

/// A function with the same value for all arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    signature: Signature,
    value: ScalarValue,
}

impl Constant {
    fn new(name: &'static str, counts: &[usize], value: ScalarValue) -> Self {
        let signatures = counts.iter().map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(*count),
        });
        let signature = Signature::one_of(signatures.collect(), Volatility::Stable);
        Self { name, signature, value }
    }
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
