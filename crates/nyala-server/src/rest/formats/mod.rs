//! Result bodies: one file per format, chosen by the `Accept` header, all written batch by batch.

mod arrow_stream;
mod csv;
mod format;
mod json;
mod ndjson;
mod parquet_file;
mod type_name;
mod value;

#[cfg(test)]
mod tests;

pub use format::{Encode, Format, Summary};
pub use type_name::type_name;
