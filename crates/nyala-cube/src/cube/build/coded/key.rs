//! The key of a cuboid's cells: made of codes, put in order, and taken apart into values.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array, UInt64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use nyala_model::{DimensionSet, KeyField};

use super::dictionary::Dictionary;
use super::expressions::{KeyExpr, words};
use crate::cube::build::batches::own_column;

/// The key of one cuboid.
pub struct Key {
    pub parts: Vec<Part>,
    /// Position of the segment's code among the columns of rows, if the key begins with it.
    pub segment: Option<usize>,
}

/// One column of a key.
pub enum Part {
    Word(Vec<CodedField>),
    Plain(usize),
}

/// A field of a word, and the dictionary of its codes; the field of segments has none.
pub type CodedField = (KeyField, Option<Arc<Dictionary>>);

impl Key {
    /// The group expressions over flat rows with codes.
    pub fn expressions(&self, rows: &SchemaRef) -> Vec<(Arc<dyn PhysicalExpr>, String)> {
        let expressions = self.parts.iter().enumerate().map(|(i, part)| {
            let expr: Arc<dyn PhysicalExpr> = match part {
                Part::Plain(dimension) => Arc::new(Column::new(rows.field(*dimension).name(), *dimension)),
                Part::Word(fields) => {
                    Arc::new(KeyExpr::Word(fields.iter().map(|(field, _)| *field).collect()))
                }
            };
            (expr, format!("key{i}"))
        });
        expressions.collect()
    }

    /// The segment of a key, computed from its columns.
    pub fn segment_expression(&self) -> Option<Arc<dyn PhysicalExpr>> {
        let (position, (field, _)) = self.segment_field()?;
        Some(Arc::new(KeyExpr::Codes(*field, position)))
    }

    fn segment_field(&self) -> Option<(usize, &CodedField)> {
        let segment = self.segment?;
        self.parts.iter().enumerate().find_map(|(i, part)| match part {
            Part::Word(fields) => Some((i, fields.iter().find(|(field, _)| field.dimension == segment)?)),
            Part::Plain(_) => None,
        })
    }

    /// A copy of merged cells with ranks in the place of codes.
    pub fn ranked(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().enumerate().map(|(i, column)| match self.parts.get(i) {
            Some(Part::Word(fields)) => ranked(column, fields),
            _ => own_column(column),
        });
        let columns: Result<Vec<ArrayRef>> = columns.collect();
        Ok(RecordBatch::try_new(batch.schema(), columns?)?)
    }

    /// The cells of the cuboid over `set`: dimensions as they are defined, then states; last the segment, if
    /// the key has it.
    pub fn values(&self, batch: &RecordBatch, set: DimensionSet, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(schema.fields().len());
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
        if let Some((position, (field, _))) = self.segment_field() {
            let column = batch.columns().get(position);
            let column = column.ok_or_else(|| exec_datafusion_err!("a cell has no segment"))?;
            columns.push(Arc::new(UInt32Array::from(field.get(words(column)?))));
        }
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}

/// A column of words with ranks in the place of codes.
fn ranked(column: &ArrayRef, fields: &[CodedField]) -> Result<ArrayRef> {
    let from = words(column)?;
    let mut to = vec![0; from.len()];
    for (field, dictionary) in fields {
        match dictionary {
            Some(dictionary) => field.translate(from, &mut to, &dictionary.ranks()?.of_codes),
            None => field.put(&mut to, &field.get(from)),
        }
    }
    Ok(Arc::new(UInt64Array::from(to)))
}

/// The values of a dimension, out of words with ranks.
fn values(column: &ArrayRef, (field, dictionary): &CodedField) -> Result<ArrayRef> {
    let dictionary = dictionary.as_ref();
    let dictionary = dictionary.ok_or_else(|| exec_datafusion_err!("a dimension has no dictionary"))?;
    dictionary.ranks()?.values(field.get(words(column)?))
}
