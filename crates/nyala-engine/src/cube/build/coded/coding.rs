//! Which dimensions have codes, and the plan of a cuboid that is counted by them.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::{DimensionSet, KeyPart, cell_key, code_bits};

use super::dictionary::Dictionary;
use super::function::code_of;
use super::key::{CodedField, PackedWord, ranked, values};
use crate::cube::build::batches::{map_batches, own_column};
use crate::cube::build::order::Order;
use crate::cube::build::pipeline::{Groups, aggregate_rows, gather, merge_states, sort};
use crate::cube::compile::CompiledCube;
use crate::error::{QueryError, Result};

type Plan = Arc<dyn ExecutionPlan>;

/// A dimension with more values keeps them: their dictionary would take much memory, and looking a value
/// up there much longer than in the few groups of a batch.
const MOST_VALUES: u64 = 1 << 22;

/// The dictionaries of one pass over the rows.
pub(in crate::cube::build) struct Coding {
    /// By position of the dimension; none for those that keep their values.
    dictionaries: Vec<Option<Arc<Dictionary>>>,
    /// Positions of the dimensions, fewest values first.
    order: Vec<usize>,
    /// The flat rows with codes.
    rows: SchemaRef,
}

impl Coding {
    /// Codes for the dimensions of which the `order` says that they have few values.
    pub(in crate::cube::build) fn new(
        cube: &CompiledCube,
        order: &Order,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let mut dictionaries = Vec::new();
        for (dimension, values) in cube.dimensions.iter().zip(&order.values) {
            let (name, data_type) = (dimension.field.name(), dimension.field.data_type());
            let coded = *values <= MOST_VALUES && has_codes(data_type);
            let dictionary =
                coded.then(|| Dictionary::new(name, data_type, code_bits(*values), pool)).transpose()?;
            dictionaries.push(dictionary.map(Arc::new));
        }
        let fields = cube.flat_schema.fields().iter().enumerate().map(|(i, field)| {
            match dictionaries.get(i).is_some_and(Option::is_some) {
                true => Arc::new(Field::new(field.name(), DataType::UInt32, true)),
                false => Arc::clone(field),
            }
        });
        let rows = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { dictionaries, order: order.dimensions.clone(), rows })
    }

    /// The flat rows with codes. Dimensions are their first columns.
    pub(in crate::cube::build) fn flat(&self, cube: &CompiledCube) -> Result<LogicalPlan> {
        let LogicalPlan::Projection(flat) = &cube.flat else {
            return Err(QueryError::internal("the flat rows of a cube are not a projection"));
        };
        let columns =
            flat.expr.iter().zip(self.rows.fields()).enumerate().map(|(i, (expr, field))| {
                match self.dictionaries.get(i).and_then(Option::as_ref) {
                    Some(dictionary) => code_of(expr.clone().unalias(), dictionary).alias(field.name()),
                    None => expr.clone(),
                }
            });
        let columns: Vec<Expr> = columns.collect();
        Ok(LogicalPlanBuilder::from(flat.input.as_ref().clone()).project(columns)?.build()?)
    }

    /// Plans the cuboid over `set`, which is not empty, from such rows, as
    /// [`cuboid_plan`](crate::cube::build::pipeline::cuboid_plan) does from others.
    pub(in crate::cube::build) fn cuboid_plan(
        &self,
        cube: &CompiledCube,
        set: DimensionSet,
        rows: Plan,
        partitions: usize,
    ) -> Result<Plan> {
        let key = Arc::new(self.key(set)?);
        let groups = Groups { columns: key.expressions(&self.rows), flat: Arc::clone(&self.rows) };
        let states = aggregate_rows(cube, groups.clone(), rows, 0)?;
        let gathered = gather(key.parts.len(), states, partitions)?;
        let merged = merge_states(cube, groups.names(), &self.rows, gathered)?;
        let (schema, by_rank) = (merged.schema(), Arc::clone(&key));
        let in_order = map_batches(&merged, schema, move |batch| by_rank.ranked(batch))?;
        let sorted = sort(0..key.parts.len(), in_order)?;
        let stored = cube.cuboid_schema(set);
        let schema = Arc::clone(&stored);
        Ok(map_batches(&sorted, schema, move |batch| key.values(batch, set, &stored))?)
    }

    fn key(&self, set: DimensionSet) -> Result<Key> {
        let dictionary = |dimension: usize| self.dictionaries.get(dimension).and_then(Option::as_ref);
        let dimensions = self.order.iter().copied().filter(|dimension| set.contains(*dimension));
        let dimensions = dimensions.map(|i| (i, dictionary(i).map(|codes| codes.bits())));
        let mut parts = Vec::new();
        for part in cell_key(dimensions) {
            parts.push(match part {
                KeyPart::Plain(dimension) => Part::Plain(dimension),
                KeyPart::Word(fields) => {
                    let coded = fields.into_iter().map(|field| {
                        let codes = dictionary(field.dimension).map(Arc::clone);
                        Some((field, codes?))
                    });
                    let coded = coded.collect::<Option<Vec<_>>>();
                    Part::Word(coded.ok_or_else(|| QueryError::internal("a dimension lost its codes"))?)
                }
            });
        }
        Ok(Key { parts })
    }
}

/// Types that grouping has a fast table for. What else there is is rare.
fn has_codes(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, LargeBinary, LargeUtf8, Time32, Time64,
        Timestamp, Utf8, Utf8View,
    };
    data_type.is_integer()
        || matches!(
            data_type,
            Boolean
                | Date32
                | Date64
                | Time32(_)
                | Time64(_)
                | Timestamp(..)
                | Decimal128(..)
                | Utf8
                | LargeUtf8
                | Utf8View
                | Binary
                | LargeBinary
                | BinaryView
        )
}

/// The key of one cuboid.
struct Key {
    parts: Vec<Part>,
}

enum Part {
    Word(Vec<CodedField>),
    Plain(usize),
}

impl Key {
    /// What flat rows with codes are grouped by.
    fn expressions(&self, rows: &SchemaRef) -> Vec<(Arc<dyn PhysicalExpr>, String)> {
        let expressions = self.parts.iter().enumerate().map(|(i, part)| {
            let expr: Arc<dyn PhysicalExpr> = match part {
                Part::Plain(dimension) => Arc::new(Column::new(rows.field(*dimension).name(), *dimension)),
                Part::Word(fields) => {
                    let fields = fields.iter().map(|(field, _)| (*field, field.dimension)).collect();
                    Arc::new(PackedWord { fields })
                }
            };
            (expr, format!("key{i}"))
        });
        expressions.collect()
    }

    /// Merged cells in batches of their own, with ranks.
    fn ranked(&self, batch: &RecordBatch) -> datafusion::error::Result<RecordBatch> {
        let columns = batch.columns().iter().enumerate().map(|(i, column)| match self.parts.get(i) {
            Some(Part::Word(fields)) => ranked(column, fields),
            _ => own_column(column),
        });
        let columns: datafusion::error::Result<Vec<ArrayRef>> = columns.collect();
        Ok(RecordBatch::try_new(batch.schema(), columns?)?)
    }

    /// The cells of the cuboid over `set`: dimensions as they are defined, then states.
    fn values(
        &self,
        batch: &RecordBatch,
        set: DimensionSet,
        stored: &SchemaRef,
    ) -> datafusion::error::Result<RecordBatch> {
        let mut columns = Vec::with_capacity(stored.fields().len());
        for dimension in set.iter() {
            for (part, column) in self.parts.iter().zip(batch.columns()) {
                match part {
                    Part::Plain(plain) if *plain == dimension => columns.push(Arc::clone(column)),
                    Part::Plain(_) => {}
                    Part::Word(fields) => {
                        let field = fields.iter().find(|(field, _)| field.dimension == dimension);
                        columns.extend(field.map(|field| values(column, field)).transpose()?);
                    }
                }
            }
        }
        columns.extend(batch.columns().iter().skip(self.parts.len()).cloned());
        Ok(RecordBatch::try_new(Arc::clone(stored), columns)?)
    }
}
