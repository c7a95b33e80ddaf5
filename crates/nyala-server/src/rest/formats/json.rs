//! One JSON document: columns, rows as arrays, and at the end the number of rows and the time.
//!
//! Rows are arrays and not objects: column names may repeat in SQL, and need not be sent each time.

use std::io::Write;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use serde::Serialize;

use super::value::Values;
use super::{Encode, Summary, type_name};

pub struct Json {
    schema: SchemaRef,
    values: Values,
    any_row: bool,
}

#[derive(Serialize)]
struct ColumnHead<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    data_type: String,
    nullable: bool,
}

impl Json {
    pub fn try_new(schema: SchemaRef) -> Result<Self, ArrowError> {
        let values = Values::new();
        values.check(&schema)?;
        Ok(Self { schema, values, any_row: false })
    }
}

impl Encode for Json {
    fn head(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let columns: Vec<_> = self
            .schema
            .fields()
            .iter()
            .map(|field| ColumnHead {
                name: field.name(),
                data_type: type_name(field.data_type()),
                nullable: field.is_nullable(),
            })
            .collect();
        out.extend_from_slice(b"{\"columns\":");
        write_json(&columns, out)?;
        out.extend_from_slice(b",\"rows\":[");
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut columns = self.values.columns(batch)?;
        for row in 0..batch.num_rows() {
            out.extend_from_slice(if self.any_row { b",\n[" } else { b"\n[" });
            self.any_row = true;
            for (position, column) in columns.iter_mut().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                column.write(row, out);
            }
            out.push(b']');
        }
        self.values.finish()
    }

    fn tail(&mut self, summary: &Summary, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        write!(out, "],\"row_count\":{}", summary.rows)?;
        if let Some(tag) = &summary.tag {
            out.extend_from_slice(b",\"command\":");
            write_json(tag, out)?;
        }
        write!(out, ",\"elapsed_ms\":{:.3}", summary.elapsed.as_secs_f64() * 1000.0)?;
        if let Some(more) = summary.more {
            write!(out, ",\"more\":{more}")?;
        }
        if let Some(route) = &summary.route {
            out.extend_from_slice(b",\"route\":");
            write_json(route, out)?;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn write_json(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    serde_json::to_writer(out, value).map_err(|error| ArrowError::JsonError(error.to_string()))
}
