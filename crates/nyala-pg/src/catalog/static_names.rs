//! Names and numbers of PostgreSQL's own types and functions.

use std::collections::HashMap;
use std::sync::OnceLock;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion_pg_catalog::pg_catalog::ArrowTable;
use pgwire::api::Type;

use super::column_types::format_type;

/// Types and functions by name and by number.
#[derive(Debug, Default)]
pub struct StaticNames(OnceLock<Names>);

#[derive(Debug, Default)]
struct Names {
    types: HashMap<String, i32>,
    functions: HashMap<String, i32>,
    function_names: HashMap<i32, String>,
}

/// SQL's names of types that pg_type lists under another name.
const SQL_NAMES: &[(&str, &str)] = &[
    ("bigint", "int8"),
    ("bit varying", "varbit"),
    ("boolean", "bool"),
    ("\"char\"", "char"),
    ("char", "bpchar"),
    ("character", "bpchar"),
    ("character varying", "varchar"),
    ("dec", "numeric"),
    ("decimal", "numeric"),
    ("double precision", "float8"),
    ("float", "float8"),
    ("int", "int4"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
    ("time with time zone", "timetz"),
    ("time without time zone", "time"),
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
];

impl StaticNames {
    /// Fills the names from `pg_type` and `pg_proc`, once.
    pub fn fill(&self, types: &ArrowTable, functions: &ArrowTable) {
        self.0.get_or_init(|| {
            let types = pairs(types, "typname").into_iter().collect();
            let named = pairs(functions, "proname");
            let function_names = named.iter().map(|(name, oid)| (*oid, name.clone())).collect();
            // Of functions with one name, the first is found.
            let functions = named.into_iter().rev().collect();
            Names { types, functions, function_names }
        });
    }

    /// The number of a type, by any of its names.
    pub fn type_oid(&self, name: &str) -> Option<i32> {
        // Blanks may stand around each word.
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ").replace(" . ", ".");
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).to_ascii_lowercase();
        if let Some(item) = name.strip_suffix("[]") {
            let item = u32::try_from(self.type_oid(item)?).ok()?;
            return self.0.get()?.types.get(&format!("_{}", Type::from_oid(item)?.name())).copied();
        }
        // Lengths, as of `numeric(10,2)`, are not part of the type.
        let plain = match (name.find('('), name.find(')')) {
            (Some(open), Some(close)) if open < close => {
                format!("{}{}", name.get(..open)?.trim_end(), name.get(close + 1..)?)
            }
            _ => name,
        };
        let own = SQL_NAMES.iter().find(|(sql, _)| *sql == plain).map(|(_, own)| *own);
        let own = own.unwrap_or_else(|| plain.trim_matches('"'));
        self.0.get()?.types.get(own).copied()
    }

    /// The number of a function; arguments in parentheses are ignored.
    pub fn function_oid(&self, name: &str) -> Option<i32> {
        let name = name.split('(').next().unwrap_or(name).trim();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        self.0.get()?.functions.get(name).copied()
    }

    /// The name of a function.
    pub fn function_name(&self, oid: i32) -> Option<&str> {
        self.0.get()?.function_names.get(&oid).map(String::as_str)
    }
}

/// SQL's name of a type.
pub fn type_name(oid: i32) -> String {
    let named = u32::try_from(oid).ok().filter(|oid| *oid == 0 || Type::from_oid(*oid).is_some());
    named.map_or_else(|| oid.to_string(), |oid| format_type(oid, -1))
}

fn pairs(table: &ArrowTable, name: &str) -> Vec<(String, i32)> {
    let mut pairs = Vec::new();
    for batch in table.data() {
        let column = |name: &str, to| batch.column_by_name(name).and_then(|column| cast(column, to).ok());
        let (Some(ids), Some(names)) = (column("oid", &DataType::Int32), column(name, &DataType::Utf8))
        else {
            continue;
        };
        let found = ids.as_primitive::<Int32Type>().iter().zip(names.as_string::<i32>());
        pairs.extend(found.filter_map(|(id, name)| Some((name?.to_owned(), id?))));
    }
    pairs
}
