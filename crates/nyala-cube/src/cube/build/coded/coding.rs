//! Decides which dimensions have codes, and plans cuboids that are counted by them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::{DimensionSet, KeyPart, cell_key, code_bits};
use nyala_sql::error::{QueryError, Result};

use super::dictionary::Dictionary;
use super::function::code_of;
use super::key::{Key, Part};
use super::segments::{SegmentCodes, segment_of};
use crate::cube::block::instances_of;
use crate::cube::build::batches::map_batches;
use crate::cube::build::order::Order;
use crate::cube::build::pipeline::{Groups, aggregate_rows, gather, gather_by, merge_states, sort};
use crate::cube::compile::CompiledCube;

type Plan = Arc<dyn ExecutionPlan>;

/// A dimension with more values keeps them: their dictionary would take much memory, and looking a value
/// up there much longer than in the few groups of a batch.
const MAX_VALUES: u64 = 1 << 22;

/// The dictionaries of one pass over the rows.
pub struct Coding {
    /// The dictionary of each dimension; none for a dimension that keeps its values.
    dictionaries: Vec<Option<Arc<Dictionary>>>,
    /// Positions of the dimensions, fewest values first.
    order: Vec<usize>,
    /// The flat rows with codes.
    rows: SchemaRef,
    /// The segments that are made at once, and the column of joined rows that tells them apart.
    segments: Option<(Arc<SegmentCodes>, Column)>,
}

/// The column that tells the segments of rows and cells, after all others.
const SEGMENT: &str = "@segment";

impl Coding {
    /// Codes for the dimensions with few values by this `order`.
    pub fn new(cube: &CompiledCube, order: &Order, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        let mut dictionaries = Vec::new();
        for (dimension, values) in cube.dimensions.iter().zip(&order.values) {
            let (name, data_type) = (dimension.field.name(), dimension.field.data_type());
            let coded = *values <= MAX_VALUES && has_codes(data_type);
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
        Ok(Self { dictionaries, order: order.dimensions.clone(), rows, segments: None })
    }

    /// The coding for several segments, which this column of the joined rows tells apart.
    pub fn by_segment(mut self, codes: &Arc<SegmentCodes>, key: Column) -> Self {
        self.rows = with_segment(&self.rows);
        self.segments = Some((Arc::clone(codes), key));
        self
    }

    /// The flat rows with codes. Dimensions are their first columns, the segment is the last.
    pub fn flat(&self, cube: &CompiledCube) -> Result<LogicalPlan> {
        let LogicalPlan::Projection(flat) = &cube.flat else {
            return Err(QueryError::internal("the flat rows of a cube are not a projection"));
        };
        let columns =
            flat.expr.iter().zip(self.rows.fields()).enumerate().map(|(i, (expr, field))| {
                match self.dictionaries.get(i).and_then(Option::as_ref) {
                    Some(dictionary) => {
                        let codes = code_of(expr.clone().unalias(), dictionary, is_joined(cube, i));
                        codes.alias(field.name())
                    }
                    None => expr.clone(),
                }
            });
        let segment = self.segments.iter();
        let segment = segment.map(|(codes, key)| segment_of(Expr::Column(key.clone()), codes).alias(SEGMENT));
        let columns: Vec<Expr> = columns.chain(segment).collect();
        Ok(LogicalPlanBuilder::from(flat.input.as_ref().clone()).project(columns)?.build()?)
    }

    /// Plans the cuboid over `set` from rows with codes, as
    /// [`cuboid_plan`](crate::cube::build::pipeline::cuboid_plan) does from rows with values. The set is not empty, or
    /// there are segments; then each cell has the code of its segment, and cells are ordered by it.
    pub fn cuboid_plan(
        &self,
        cube: &CompiledCube,
        set: DimensionSet,
        rows: Plan,
        partitions: usize,
    ) -> Result<Plan> {
        let key = Arc::new(self.key(set));
        let groups = Groups { columns: key.expressions(&self.rows), flat: Arc::clone(&self.rows) };
        let states = aggregate_rows(cube, groups.clone(), rows, 0)?;
        let many = self.segments.as_ref().filter(|(codes, _)| codes.len() >= partitions);
        let gathered = match many.and_then(|_| key.segment_expression()) {
            // Each partition gets whole segments, so that it writes one file for each of them.
            Some(segment) => gather_by(vec![segment], states, partitions)?,
            None => gather(key.parts.len(), states, partitions)?,
        };
        let merged = merge_states(cube, groups.names(), &self.rows, gathered)?;
        let (schema, by_rank) = (merged.schema(), Arc::clone(&key));
        let in_order = map_batches(&merged, schema, move |batch| by_rank.ranked(batch))?;
        let sorted = sort(0..key.parts.len(), in_order)?;
        let cells = cube.cuboid_schema(set);
        let cells = if self.segments.is_some() { with_segment(&cells) } else { cells };
        let schema = Arc::clone(&cells);
        Ok(map_batches(&sorted, schema, move |batch| key.values(batch, set, &cells))?)
    }

    fn key(&self, set: DimensionSet) -> Key {
        let dictionary = |dimension: usize| self.dictionaries.get(dimension).and_then(Option::as_ref);
        let dimensions = self.order.iter().copied().filter(|dimension| set.contains(*dimension));
        let dimensions = dimensions.map(|i| (i, dictionary(i).map(|codes| codes.bits())));
        let segment =
            self.segments.as_ref().map(|(codes, _)| (self.rows.fields().len() - 1, Some(codes.bits())));
        let parts = cell_key(segment.into_iter().chain(dimensions)).into_iter().map(|part| match part {
            KeyPart::Plain(dimension) => Part::Plain(dimension),
            KeyPart::Word(fields) => {
                let coded =
                    fields.into_iter().map(|field| (field, dictionary(field.dimension).map(Arc::clone)));
                Part::Word(coded.collect())
            }
        });
        Key { parts: parts.collect(), segment: segment.map(|(position, _)| position) }
    }
}

/// Whether a dimension belongs to a joined table. There each row's value is looked up once, and codes are
/// smaller to carry through joins. In the fact table, values of rows in other ranges would be looked up and
/// kept too.
fn is_joined(cube: &CompiledCube, dimension: usize) -> bool {
    cube.block.group.get(dimension).is_some_and(|expr| !instances_of(expr).contains(&0))
}

fn with_segment(schema: &SchemaRef) -> SchemaRef {
    let segment = Arc::new(Field::new(SEGMENT, DataType::UInt32, true));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([segment]).collect::<Vec<_>>()))
}

/// Whether grouping has a fast table for the type. Other types are rare.
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
