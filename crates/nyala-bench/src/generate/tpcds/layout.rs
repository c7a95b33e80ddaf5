//! Names and types of the columns, read from `columns.txt`.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

const COLUMNS: &str = include_str!("columns.txt");

/// The schema of a table.
pub fn schema(table: &str) -> anyhow::Result<SchemaRef> {
    let lines = COLUMNS.lines().skip_while(|line| *line != table).skip(1);
    let mut fields = Vec::new();
    for line in lines.take_while(|line| line.starts_with(' ')) {
        let (kind, names) = line.trim().split_once(' ').with_context(|| format!("no column in `{line}`"))?;
        let (data_type, nullable) = column_type(kind)?;
        fields.extend(names.split_whitespace().map(|name| Field::new(name, data_type.clone(), nullable)));
    }
    if fields.is_empty() {
        bail!("`columns.txt` has no table `{table}`");
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The type a word stands for, and whether it may be null.
fn column_type(word: &str) -> anyhow::Result<(DataType, bool)> {
    let kind = word.trim_end_matches('!');
    let data_type = match kind {
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "date" => DataType::Date32,
        "text" => DataType::Utf8,
        "decimal5" => DataType::Decimal128(5, 2),
        "decimal7" => DataType::Decimal128(7, 2),
        "decimal15" => DataType::Decimal128(15, 2),
        _ => bail!("`columns.txt` has a type `{word}`, which does not exist"),
    };
    Ok((data_type, kind == word))
}
