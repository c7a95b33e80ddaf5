//! Fits rows that are written to a live table: numbers get the type of their column, and texts are checked against types that
//! a store keeps as plain text, VARCHAR(n), CHAR(n) and JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as SqlType};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::{checked, is_json};
use nyala_sql::semantics::assign_column;
use nyala_sql::statement::written_columns;

/// A rule for the texts of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// Largest number of characters. Further blanks are cut off; CHAR(n), which is padded, loses all blanks at the end.
    Length { most: usize, padded: bool },
    /// JSON as it is written, or in the normal form of JSONB.
    Json { normal: bool },
}

/// The rules of a table's columns, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnRules {
    numbers: BTreeMap<String, DataType>,
    texts: BTreeMap<String, Rule>,
}

impl ColumnRules {
    /// The rules of a table with these columns, which a statement made.
    pub fn of(columns: &Schema, definition: &str) -> Self {
        let numbers = columns.fields().iter().filter(|field| field.data_type().is_numeric());
        let texts = written_columns(definition).into_iter();
        Self {
            numbers: numbers.map(|field| (field.name().clone(), field.data_type().clone())).collect(),
            texts: texts.filter_map(|(name, written)| Some((name, rule(&written)?))).collect(),
        }
    }

    /// The rows with every value fitted to its column.
    ///
    /// # Errors
    /// A text is too long or is no JSON.
    pub fn fit(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let schema = rows.schema();
        let mut changed = Vec::new();
        for (at, (column, field)) in rows.columns().iter().zip(schema.fields()).enumerate() {
            if let Some(fitted) = self.fitted(column, field.name())? {
                changed.push((at, fitted));
            }
        }
        if changed.is_empty() {
            return Ok(rows);
        }
        let mut columns = rows.columns().to_vec();
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();
        for (at, fitted) in changed {
            if let (Some(column), Some(field)) = (columns.get_mut(at), fields.get_mut(at)) {
                *field = Arc::new(field.as_ref().clone().with_data_type(fitted.data_type().clone()));
                *column = fitted;
            }
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The column fitted to the table's column; none if it stays as it is.
    fn fitted(&self, column: &ArrayRef, name: &str) -> Result<Option<ArrayRef>> {
        let given = column.data_type();
        if let Some(rule) = self.texts.get(name).filter(|_| given.is_string()) {
            let fitted = rule.fit(column, name)?;
            return Ok(fitted.map(|fitted| cast(&fitted, given)).transpose()?);
        }
        match self.numbers.get(name) {
            Some(wanted) if given.is_numeric() && given != wanted => Ok(Some(assign_column(column, wanted)?)),
            _ => Ok(None),
        }
    }
}

fn rule(written: &SqlType) -> Option<Rule> {
    let length = |length: &Option<CharacterLength>, otherwise: Option<u64>| match length {
        Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
        _ => otherwise,
    };
    let of =
        |most: Option<u64>, padded: bool| Some(Rule::Length { most: usize::try_from(most?).ok()?, padded });
    match written {
        SqlType::Varchar(n) | SqlType::CharacterVarying(n) | SqlType::CharVarying(n) => {
            of(length(n, None), false)
        }
        SqlType::Char(n) | SqlType::Character(n) => of(length(n, Some(1)), true),
        SqlType::JSON => Some(Rule::Json { normal: false }),
        SqlType::JSONB => Some(Rule::Json { normal: true }),
        _ => None,
    }
}

impl Rule {
    /// The column with fitted texts; none if it stays as it is.
    fn fit(&self, column: &ArrayRef, name: &str) -> Result<Option<ArrayRef>> {
        let texts = cast(column, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        if texts.iter().flatten().all(|text| self.holds(text)) {
            return Ok(None);
        }
        let mut fitted = StringViewBuilder::with_capacity(texts.len());
        for text in texts {
            fitted.append_option(text.map(|text| self.fitted(text, name)).transpose()?);
        }
        Ok(Some(Arc::new(fitted.finish())))
    }

    /// Whether a text stays as it is.
    fn holds(&self, text: &str) -> bool {
        match self {
            // Each character has at least one byte, so that short texts need no count.
            Self::Length { most, padded } => {
                (text.len() <= *most || text.chars().count() <= *most) && !(*padded && text.ends_with(' '))
            }
            Self::Json { normal } => !normal && is_json(text),
        }
    }

    fn fitted(&self, text: &str, column: &str) -> Result<String> {
        match self {
            Self::Length { most, padded } => {
                let end = text.char_indices().nth(*most).map_or(text.len(), |(at, _)| at);
                let (kept, rest) = text.split_at(end);
                if !rest.bytes().all(|byte| byte == b' ') {
                    return Err(too_long(*most, *padded, column));
                }
                // Blanks at the end are not part of a CHAR(n).
                Ok(if *padded { kept.trim_end_matches(' ') } else { kept }.to_owned())
            }
            Self::Json { normal } => checked(text, *normal).map_err(|error| {
                QueryError::from(error).hint(format!("column `{column}` takes texts of JSON"))
            }),
        }
    }
}

fn too_long(most: usize, padded: bool, column: &str) -> QueryError {
    let name = if padded { "character" } else { "character varying" };
    QueryError::new(ErrorKind::TooLong, format!("value too long for type {name}({most})"))
        .hint(format!("column `{column}` takes {most} characters at most"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Int32Array, Int64Array, StringViewArray};
    use arrow::datatypes::Field;

    use super::*;

    fn fit(written: &str, text: &str) -> std::result::Result<String, String> {
        let rules = ColumnRules::of(&Schema::empty(), &format!("CREATE TABLE t (c {written})"));
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some(text), None]));
        let rows = RecordBatch::try_from_iter([("c", column)]).unwrap();
        let rows = rules.fit(rows).map_err(|error| error.to_string())?;
        Ok(rows.column(0).as_string_view().value(0).to_owned())
    }

    #[test]
    fn numbers_get_the_type_of_their_column() {
        let columns = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        let rows = |numbers: ArrayRef| RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let fitted = ColumnRules::of(&columns, "").fit(rows(Arc::new(Int32Array::from(vec![7])))).unwrap();
        assert_eq!(fitted, rows(Arc::new(Int64Array::from(vec![7]))));
    }

    #[test]
    fn texts_fit_their_columns() {
        assert_eq!(fit("VARCHAR(3)", "äöü").unwrap(), "äöü");
        assert_eq!(fit("VARCHAR(3)", "abc  ").unwrap(), "abc");
        assert_eq!(fit("VARCHAR(3)", "ab ").unwrap(), "ab ");
        assert_eq!(fit("CHAR(3)", "ab ").unwrap(), "ab");
        assert_eq!(fit("VARCHAR(3)", "abcd").unwrap_err(), "value too long for type character varying(3)");
        assert_eq!(fit("CHAR", "ab").unwrap_err(), "value too long for type character(1)");
        assert_eq!(fit("TEXT", "abcd").unwrap(), "abcd");
        assert_eq!(fit("JSON", "{\"a\" : 1}").unwrap(), "{\"a\" : 1}");
        assert_eq!(fit("JSONB", "{\"b\":1,\"a\" : [ ]}").unwrap(), "{\"a\": [], \"b\": 1}");
        assert_eq!(fit("JSONB", "{a}").unwrap_err(), "invalid input syntax for type jsonb");
    }
}
