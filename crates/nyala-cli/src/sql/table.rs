//! Draws a result as a table.

use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::presets::ASCII_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

/// The rows of all batches as one table; numbers stand to the right, nulls are empty.
pub fn draw(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let mut table = Table::new();
    table.load_preset(ASCII_FULL_CONDENSED);
    table.set_header(schema.fields().iter().map(|field| Cell::new(printable(field.name()))));
    for batch in batches {
        let columns = writers(batch)?;
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| column.value(row).try_to_string().map(|text| Cell::new(printable(&text))))
                .collect::<Result<_, _>>()?;
            table.add_row(cells);
        }
    }
    for (column, field) in table.column_iter_mut().zip(schema.fields()) {
        if is_number(field.data_type()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(table.to_string())
}

/// The rows of all batches with a line for each value.
pub fn expand(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let names: Vec<String> = schema.fields().iter().map(|field| printable(field.name())).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let (mut text, mut record) = (String::new(), 0);
    for batch in batches {
        let columns = writers(batch)?;
        for row in 0..batch.num_rows() {
            record += 1;
            text.push_str(&format!("-[ RECORD {record} ]{}\n", "-".repeat(width)));
            for (name, column) in names.iter().zip(&columns) {
                let value = printable(&column.value(row).try_to_string()?);
                text.push_str(&format!("{name:width$} | {value}\n"));
            }
        }
    }
    Ok(text)
}

/// The formatters of the columns.
fn writers(batch: &RecordBatch) -> Result<Vec<ArrayFormatter<'_>>, ArrowError> {
    batch.columns().iter().map(|array| ArrayFormatter::try_new(array.as_ref(), &FORMAT)).collect()
}

const FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_number(values),
        other => other.is_numeric(),
    }
}

/// Control characters spelled out, line ends excepted: data must not steer the terminal.
fn printable(text: &str) -> String {
    let hostile = |c: char| c.is_control() && c != '\n';
    if !text.contains(hostile) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if hostile(c) { clean.extend(c.escape_default()) } else { clean.push(c) }
    }
    clean
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_have_lines_of_their_own() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
        let batch = RecordBatch::try_from_iter([("number", Arc::clone(&numbers)), ("n", numbers)]).unwrap();
        let text = expand(&batch.schema(), &[batch]).unwrap();
        assert!(text.starts_with("-[ RECORD 1 ]------\nnumber | 5\nn      | 5\n-[ RECORD 2 ]"), "{text}");
    }

    #[test]
    fn numbers_stand_right_and_escape_sequences_are_spelled() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["\u{1b}[31m", "b"]));
        let batch = RecordBatch::try_from_iter([("number", numbers), ("t", texts)]).unwrap();
        let table = draw(&batch.schema(), &[batch]).unwrap();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[3], "|      5 | \\u{1b}[31m |", "{table}");
        assert_eq!(lines[4], "|        | b          |", "{table}");
    }
}
