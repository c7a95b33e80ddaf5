//! System functions of PostgreSQL that tools call and neither DataFusion nor datafusion-pg-catalog has.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::ArrowTable;

use super::text_functions;
use crate::SERVER_VERSION;

/// The owner of every object.
pub const OWNER: &str = "nyala";

/// Functions about comments, indexes, views, rules, triggers and functions written in SQL, which do not exist.
const NOTHING: &[(&str, &[usize])] = &[
    ("col_description", &[2]),
    ("obj_description", &[1, 2]),
    ("pg_get_function_arguments", &[1]),
    ("pg_get_function_identity_arguments", &[1]),
    ("pg_get_function_result", &[1]),
    ("pg_get_functiondef", &[1]),
    ("pg_get_indexdef", &[1, 3]),
    ("pg_get_partition_constraintdef", &[1]),
    ("pg_get_ruledef", &[1, 2]),
    ("pg_get_serial_sequence", &[2]),
    ("pg_get_triggerdef", &[1, 2]),
    ("pg_get_viewdef", &[1, 2]),
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

/// Visibility of objects in pg_catalog, and privileges: the connected user is taken to have all of them.
const ALWAYS: &[(&str, &[usize])] = &[
    ("has_any_column_privilege", &[2, 3]),
    ("has_column_privilege", &[3, 4]),
    ("has_database_privilege", &[2, 3]),
    ("has_function_privilege", &[2, 3]),
    ("has_language_privilege", &[2, 3]),
    ("has_schema_privilege", &[2, 3]),
    ("has_sequence_privilege", &[2, 3]),
    ("has_table_privilege", &[2, 3]),
    ("has_tablespace_privilege", &[2, 3]),
    ("has_type_privilege", &[2, 3]),
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

/// Replication and temporary schemas do not exist.
const NEVER: &[(&str, &[usize])] = &[("pg_is_in_recovery", &[0]), ("pg_is_other_temp_schema", &[1])];

/// Adds the functions to a context; `types` is pg_type.
pub fn register(context: &SessionContext, types: &ArrowTable) {
    let constants = [
        (NOTHING, ScalarValue::Utf8(None)),
        (ALWAYS, ScalarValue::Boolean(Some(true))),
        (NEVER, ScalarValue::Boolean(Some(false))),
        (UNKNOWN_SIZES, ScalarValue::Int64(None)),
        (&[("pg_tablespace_location", &[1])], ScalarValue::from("")),
        // Connection pools call it, though there are no advisory locks. Its void result is sent as an empty text.
        (&[("pg_advisory_unlock_all", &[0])], ScalarValue::from("")),
        (&[("version", &[0_usize] as &[usize])], ScalarValue::from(format!("PostgreSQL {SERVER_VERSION}"))),
        (&[("pg_get_userbyid", &[1])], ScalarValue::from(OWNER)),
        (&[("getdatabaseencoding", &[0])], ScalarValue::from("UTF8")),
        (&[("pg_my_temp_schema", &[0])], ScalarValue::Int32(Some(0))),
    ];
    for (names, value) in constants {
        for (name, counts) in names {
            context.register_udf(ScalarUDF::new_from_impl(Constant::new(name, counts, value.clone())));
        }
    }
    context.register_udf(ScalarUDF::new_from_impl(ToRegtype::new(types)));
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

/// `to_regtype(name)`: the OID of a type, or NULL if there is no type of that name.
#[derive(Debug)]
struct ToRegtype {
    signature: Signature,
    oids: Arc<HashMap<String, i32>>,
}

/// All instances know the same types: pg_type never changes.
impl PartialEq for ToRegtype {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ToRegtype {}

impl Hash for ToRegtype {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// SQL's names of types that pg_type lists under another name.
const SQL_NAMES: &[(&str, &str)] = &[
    ("bigint", "int8"),
    ("boolean", "bool"),
    ("character varying", "varchar"),
    ("decimal", "numeric"),
    ("double precision", "float8"),
    ("int", "int4"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
];

impl ToRegtype {
    fn new(types: &ArrowTable) -> Self {
        let mut oids = HashMap::new();
        for batch in types.data() {
            let column = |name: &str, to| batch.column_by_name(name).and_then(|c| cast(c, to).ok());
            let (Some(ids), Some(names)) =
                (column("oid", &DataType::Int32), column("typname", &DataType::Utf8))
            else {
                continue;
            };
            let pairs = ids.as_primitive::<Int32Type>().iter().zip(names.as_string::<i32>());
            oids.extend(pairs.filter_map(|(id, name)| Some((name?.to_owned(), id?))));
        }
        Self { signature: Signature::string(1, Volatility::Stable), oids: Arc::new(oids) }
    }

    fn oid(&self, name: &str) -> Option<i32> {
        let name = name.trim().trim_matches('"').to_ascii_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let own = SQL_NAMES.iter().find(|(sql, _)| *sql == name).map_or(name, |(_, own)| own);
        self.oids.get(own).copied()
    }
}

impl ScalarUDFImpl for ToRegtype {
    fn name(&self) -> &str {
        "to_regtype"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let oids: Int32Array = match arrays.first() {
            Some(names) => {
                let names: ArrayRef = cast(names, &DataType::Utf8)?;
                names.as_string::<i32>().iter().map(|name| name.and_then(|name| self.oid(name))).collect()
            }
            None => Int32Array::new_null(args.number_rows),
        };
        if oids.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&oids, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(oids)))
    }
}
