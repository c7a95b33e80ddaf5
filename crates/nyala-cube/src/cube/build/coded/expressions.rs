//! Expressions over keys and their parts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use nyala_model::KeyField;

use super::dictionary::numbers;

/// An expression over codes, or over a word of codes.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyExpr {
    /// A word of a key, from the columns that have the codes.
    Word(Vec<KeyField>),
    /// The codes in this field of a column of words.
    Codes(KeyField, usize),
}

impl PhysicalExpr for KeyExpr {
    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(match self {
            Self::Word(_) => DataType::UInt64,
            Self::Codes(..) => DataType::UInt32,
        })
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = |position: usize| {
            let column = batch.columns().get(position);
            column.ok_or_else(|| exec_datafusion_err!("a row lacks part of its key"))
        };
        let result: ArrayRef = match self {
            Self::Word(fields) => {
                let mut packed = vec![0; batch.num_rows()];
                for field in fields {
                    field.put(&mut packed, &numbers(column(field.dimension)?)?);
                }
                Arc::new(UInt64Array::from(packed))
            }
            Self::Codes(field, position) => {
                Arc::new(UInt32Array::from(field.get(words(column(*position)?)?)))
            }
        };
        Ok(ColumnarValue::Array(result))
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

impl fmt::Display for KeyExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(fields) => {
                let columns: Vec<String> =
                    fields.iter().map(|field| format!("@{}", field.dimension)).collect();
                write!(f, "key({})", columns.join(", "))
            }
            Self::Codes(_, column) => write!(f, "codes(@{column})"),
        }
    }
}

impl Hash for KeyExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Word(fields) => fields.hash(state),
            Self::Codes(field, column) => (field, column).hash(state),
        }
    }
}

/// The words of a column of a key.
pub fn words(column: &ArrayRef) -> Result<&[u64]> {
    let words = column.as_primitive_opt::<UInt64Type>();
    Ok(words.ok_or_else(|| exec_datafusion_err!("a key has no words"))?.values())
}
