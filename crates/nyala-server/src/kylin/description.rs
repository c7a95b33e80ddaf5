//! A cube in Kylin's words: a model of a fact table and its lookups, with dimensions, measures and aggregation groups.
//!
//! Kylin names a column by the alias of its table, `ALIAS.COLUMN`. An expression is a column there, too, a computed one of the fact table.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{CubeDescription, DescribedDimension, DescribedExpr, ErrorKind, QueryError};
use nyala_model::{CubeDefinition, CubeEntry, DimensionSet, KeyKind, QualifiedName};
use serde_json::{Value, json};

use super::cubes::Cube;
use super::measure::{chained, function_of, kylin_type, parameters, return_type};
use crate::http::Shared;

/// Measures of a model are numbered from here, as in Kylin.
const FIRST_MEASURE: usize = 100_000;
/// The step between the numbers of two indexes: the numbers between are for layouts of the first one.
const INDEX_STEP: usize = 10_000;

/// A cube of the catalog, and its parts.
pub struct Described {
    entry: Arc<CubeEntry>,
    parts: CubeDescription,
}

/// How much a cuboid takes, and how often it has answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct CuboidUse {
    pub bytes: u64,
    pub hits: u64,
}

impl Described {
    /// Describes the cube of this name.
    ///
    /// # Errors
    /// There is none, or it no longer fits its tables.
    pub fn find<'a>(shared: &'a Shared, name: &'a QualifiedName) -> BoxFuture<'a, Result<Self, QueryError>> {
        async move {
            let parts = shared.engine.describe_cube(name).await?;
            match shared.engine.catalog().snapshot().cubes.get(name) {
                Some(entry) => Ok(Self { entry: Arc::clone(entry), parts }),
                None => {
                    let message = format!("cube `{name}` does not exist");
                    Err(QueryError::new(ErrorKind::UndefinedTable, message))
                }
            }
        }
        .boxed()
    }

    fn definition(&self) -> &CubeDefinition {
        &self.entry.definition
    }

    /// Name and alias of the fact table.
    fn fact(&self) -> (String, &str) {
        let fact = self.parts.tables.first();
        fact.map_or_else(Default::default, |table| (table.name.to_string(), table.alias.as_str()))
    }

    pub fn fact_table(&self) -> Value {
        json!(self.fact().0)
    }

    /// The other tables, as far as they are joined by equal columns.
    pub fn lookups(&self) -> Value {
        let joined = self.parts.tables.iter().skip(1).filter(|table| !table.keys.is_empty());
        let shown = joined.map(|table| {
            let keys = table.keys.iter().map(|(own, other)| (own.to_string(), other.to_string()));
            let (primary, foreign): (Vec<_>, Vec<_>) = keys.unzip();
            json!({
                "table": table.name.to_string(),
                "kind": "LOOKUP",
                "alias": table.alias,
                "join": {
                    "type": if table.is_optional { "left" } else { "inner" },
                    "primary_key": primary,
                    "foreign_key": foreign,
                },
            })
        });
        shown.collect()
    }

    /// Table and column of a dimension.
    fn place<'a>(&'a self, dimension: &'a DescribedDimension) -> (&'a str, &'a str) {
        match &dimension.expression {
            DescribedExpr::Column(column) => (&column.table, &column.name),
            DescribedExpr::Constant(_) | DescribedExpr::Sql(_) => (self.fact().1, &dimension.name),
        }
    }

    fn column_of(&self, dimension: &DescribedDimension) -> String {
        let (table, column) = self.place(dimension);
        format!("{table}.{column}")
    }

    /// Columns of dimensions, for each table.
    pub fn columns_by_table(&self) -> Value {
        let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (table, column) in self.parts.dimensions.iter().map(|dimension| self.place(dimension)) {
            tables.entry(table).or_default().push(column);
        }
        tables.iter().map(|(table, columns)| json!({ "table": table, "columns": columns })).collect()
    }

    /// Columns that measures are computed from.
    pub fn measured_columns(&self) -> Value {
        let arguments = self.parts.measures.iter().flat_map(|measure| &measure.arguments);
        let mut columns: Vec<String> = arguments
            .filter_map(|argument| match argument {
                DescribedExpr::Column(column) => Some(column.to_string()),
                DescribedExpr::Constant(_) | DescribedExpr::Sql(_) => None,
            })
            .collect();
        columns.sort();
        columns.dedup();
        json!(columns)
    }

    /// Dimensions that are expressions.
    pub fn computed_columns(&self) -> Value {
        let (table, alias) = self.fact();
        let computed = self.parts.dimensions.iter().filter_map(|dimension| {
            let expression = match &dimension.expression {
                DescribedExpr::Column(_) => return None,
                DescribedExpr::Constant(text) | DescribedExpr::Sql(text) => text,
            };
            Some(json!({
                "tableIdentity": table,
                "tableAlias": alias,
                "columnName": dimension.name,
                "expression": expression,
                "datatype": kylin_type(&dimension.data_type),
            }))
        });
        computed.collect()
    }

    /// Conditions besides the joins.
    pub fn condition(&self) -> Value {
        json!(self.parts.conditions.join(" AND "))
    }

    /// The column that divides the cube into segments.
    pub fn partition(&self) -> Value {
        let partition = self.definition().partition.as_ref();
        let format = partition.map(|partition| match partition.kind {
            KeyKind::Integer => "",
            KeyKind::CalendarInteger => "yyyyMMdd",
            KeyKind::Date => "yyyy-MM-dd",
            KeyKind::Timestamp { .. } => "yyyy-MM-dd HH:mm:ss",
        });
        json!({
            "partition_date_column": partition.map(|partition| format!("{}.{}", self.fact().1, partition.column)),
            "partition_date_start": 0,
            "partition_date_format": format,
            "partition_type": "APPEND",
        })
    }

    /// The grouping sets. Each is one cuboid: all of its dimensions are mandatory.
    fn aggregation_groups(&self) -> Value {
        let group = |set: &DimensionSet| {
            let columns: Vec<String> =
                self.members(*set).map(|dimension| self.column_of(dimension)).collect();
            json!({
                "includes": columns,
                "select_rule": { "mandatory_dims": columns, "hierarchy_dims": [], "joint_dims": [] },
            })
        };
        self.definition().grouping_sets.iter().map(group).collect()
    }

    fn members(&self, set: DimensionSet) -> impl Iterator<Item = &DescribedDimension> {
        set.iter().filter_map(|position| self.parts.dimensions.get(position))
    }

    /// The description of a cube of Kylin up to version 4.
    pub fn cube_desc(&self, cube: &Cube) -> Value {
        let dimensions = self.parts.dimensions.iter().map(|dimension| {
            let (table, column) = self.place(dimension);
            json!({ "name": dimension.name, "table": table, "column": column, "derived": null })
        });
        let measures = self.parts.measures.iter().map(|measure| {
            json!({
                "name": measure.call,
                "function": {
                    "expression": function_of(measure),
                    "parameter": chained(&measure.arguments),
                    "returntype": return_type(measure),
                },
            })
        });
        json!({
            "uuid": cube.name.to_string(),
            "name": cube.name.name,
            "model_name": cube.name.to_string(),
            "last_modified": cube.built_at_ms,
            "description": "",
            "dimensions": dimensions.collect::<Vec<_>>(),
            "measures": measures.collect::<Vec<_>>(),
            "aggregation_groups": self.aggregation_groups(),
        })
    }

    /// The description of a model of Kylin 5.
    pub fn model_desc(&self, cube: &Cube) -> Value {
        let measures = self.parts.measures.iter().enumerate().map(|(position, measure)| {
            json!({
                "id": FIRST_MEASURE + position,
                "name": measure.call,
                "function": {
                    "expression": function_of(measure),
                    "parameters": parameters(&measure.arguments),
                    "returntype": return_type(measure),
                },
            })
        });
        json!({
            "uuid": cube.name.to_string(),
            "name": cube.name.name,
            "project": cube.name.schema,
            "last_modified": cube.built_at_ms,
            "description": "",
            "fact_table": self.fact_table(),
            "join_tables": self.lookups(),
            "dimensions": self.named_columns(),
            "measures": measures.collect::<Vec<_>>(),
            "aggregation_groups": self.aggregation_groups(),
            "computed_columns": self.computed_columns(),
            "filter_condition": self.condition(),
            "partition_desc": self.partition(),
        })
    }

    /// Dimensions as columns with names.
    pub fn named_columns(&self) -> Value {
        let columns = self.parts.dimensions.iter().enumerate().map(|(position, dimension)| {
            json!({
                "id": position,
                "name": dimension.name,
                "column": self.column_of(dimension),
                "status": "DIMENSION",
                "derived": false,
            })
        });
        columns.collect()
    }

    /// Measures, each in one object without further ones.
    pub fn flat_measures(&self) -> Value {
        let measures = self.parts.measures.iter().enumerate().map(|(position, measure)| {
            json!({
                "id": FIRST_MEASURE + position,
                "name": measure.call,
                "expression": function_of(measure),
                "parameter_value": parameters(&measure.arguments),
                "return_type": return_type(measure),
            })
        });
        measures.collect()
    }

    /// The cuboids, as indexes of Kylin 5. `uses` has those that are built, by the text that `SHOW CUBOIDS` names them by.
    pub fn indexes(&self, uses: &HashMap<String, CuboidUse>) -> Vec<Value> {
        let tables: Vec<String> = self.definition().sources.iter().map(ToString::to_string).collect();
        let measures = self.parts.measures.iter().map(|measure| (measure.call.clone(), "measure"));
        let measures: Vec<(String, &str)> = measures.collect();
        let index = |(position, set): (usize, &DimensionSet)| {
            let found = uses.get(&format!("({})", self.definition().dimension_names(*set).join(", ")));
            let CuboidUse { bytes, hits } = found.copied().unwrap_or_default();
            let columns = self.members(*set).map(|dimension| (self.column_of(dimension), "column"));
            let order = columns.chain(measures.iter().cloned());
            let order = order.map(|(key, value)| json!({ "key": key, "value": value }));
            json!({
                "id": position * INDEX_STEP + 1,
                "status": if found.is_some() { "ONLINE" } else { "NO_BUILD" },
                "source": "CUSTOM_AGG_INDEX",
                "col_order": order.collect::<Vec<_>>(),
                "shard_by_columns": [],
                "sort_by_columns": [],
                "data_size": bytes,
                "usage": hits,
                "related_tables": tables,
            })
        };
        self.definition().grouping_sets.iter().enumerate().map(index).collect()
    }
}
