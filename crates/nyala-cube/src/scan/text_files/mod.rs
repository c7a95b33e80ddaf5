//! CSV and JSON files: rows as text, in columns that are found by their names.

mod bytes;
mod csv;
mod csv_columns;
mod csv_head;
mod json;
pub mod whole_numbers;

pub use bytes::whole;
pub use csv::CsvFiles;
pub use csv_head::{GUESSED_BYTES, HeadOfCsv, columns_of_csv, has_header};
pub use json::JsonFiles;
