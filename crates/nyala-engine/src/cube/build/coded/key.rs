//! The key of a cuboid's cells: made of codes, put in order, and taken apart into values.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use nyala_model::KeyField;

use super::dictionary::{Dictionary, numbers};

/// A word of a key, from the columns that have the codes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackedWord {
    /// Each with the position of its column.
    pub(super) fields: Vec<(KeyField, usize)>,
}

impl PhysicalExpr for PackedWord {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut words = vec![0; batch.num_rows()];
        for (field, column) in &self.fields {
            let column = batch.columns().get(*column);
            let column = column.ok_or_else(|| exec_datafusion_err!("a row lacks a code"))?;
            field.put(&mut words, &numbers(column)?);
        }
        Ok(ColumnarValue::Array(Arc::new(UInt64Array::from(words))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for PackedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.fields.iter().map(|(_, column)| format!("@{column}")).collect();
        write!(f, "key({})", columns.join(", "))
    }
}

impl Hash for PackedWord {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields.hash(state);
    }
}

/// A field of a word and the dictionary of its codes.
pub(super) type CodedField = (KeyField, Arc<Dictionary>);

/// A column of words with ranks in the place of codes.
pub(super) fn ranked(column: &ArrayRef, fields: &[CodedField]) -> Result<ArrayRef> {
    let from = words(column)?;
    let mut to = vec![0; from.len()];
    for (field, dictionary) in fields {
        field.translate(from, &mut to, &dictionary.ranks()?.of_codes);
    }
    Ok(Arc::new(UInt64Array::from(to)))
}

/// The values of a dimension, out of words with ranks.
pub(super) fn values(column: &ArrayRef, (field, dictionary): &CodedField) -> Result<ArrayRef> {
    dictionary.ranks()?.values(field.get(words(column)?))
}

fn words(column: &ArrayRef) -> Result<&[u64]> {
    let words = column.as_primitive_opt::<UInt64Type>();
    Ok(words.ok_or_else(|| exec_datafusion_err!("a key has no words"))?.values())
}
