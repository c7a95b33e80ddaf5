//! CSV and JSON files: rows as text, in columns that are found by their names.

mod bytes;
mod csv;
mod csv_columns;
mod csv_head;
mod json;
mod text_source;
pub mod whole_numbers;

pub use bytes::whole;
pub use csv::Csv;
pub use csv_head::{GUESSED_BYTES, HeadOfCsv, columns_of_csv, has_header};
pub use json::Json;
pub use text_source::TextFiles;
