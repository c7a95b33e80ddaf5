//! Newline-delimited JSON: one object per row.

use std::collections::HashSet;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::value::Values;
use super::{Encode, Summary};

pub struct NdJson {
    /// `{"name":` or `,"name":` for each column.
    keys: Vec<Vec<u8>>,
    values: Values,
}

impl NdJson {
    pub(super) fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        let values = Values::new();
        values.check(&schema)?;
        Ok(Self { keys: keys(&schema)?, values })
    }
}

impl Encode for NdJson {
    fn head(&mut self, _out: &mut Vec<u8>) -> Result<(), ArrowError> {
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut columns = self.values.columns(batch)?;
        for row in 0..batch.num_rows() {
            if columns.is_empty() {
                out.push(b'{');
            }
            for (key, column) in self.keys.iter().zip(&mut columns) {
                out.extend_from_slice(key);
                column.write(row, out);
            }
            out.extend_from_slice(b"}\n");
        }
        self.values.finish()
    }

    fn tail(&mut self, _summary: &Summary, _out: &mut Vec<u8>) -> Result<(), ArrowError> {
        Ok(())
    }
}

fn keys(schema: &Schema) -> Result<Vec<Vec<u8>>, ArrowError> {
    let text = |(position, name): (usize, String)| {
        let name = serde_json::to_string(&name).map_err(|error| ArrowError::JsonError(error.to_string()))?;
        let before = if position == 0 { '{' } else { ',' };
        Ok(format!("{before}{name}:").into_bytes())
    };
    distinct_names(schema).into_iter().enumerate().map(text).collect()
}

/// Column names made distinct: most readers keep only the last of several equal keys, so the second
/// `a` becomes `a_2`, the third `a_3`.
fn distinct_names(schema: &Schema) -> Vec<String> {
    let given: HashSet<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut taken: HashSet<String> = HashSet::new();
    let mut names = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut count = 1;
        while taken.contains(&name) || (count > 1 && given.contains(name.as_str())) {
            count += 1;
            name = format!("{}_{count}", field.name());
        }
        taken.insert(name.clone());
        names.push(name);
    }
    names
}
