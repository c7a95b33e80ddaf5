//! Rows that clients send, in the formats they send them in, on their way into a live table.
//!
//! ```text
//! bytes ──▶ Decode (CSV, text, NDJSON, Arrow, Parquet; a door's own) ──▶ batches ──▶ Ingest
//!             │                 memory is only allocated by lengths that fit the bytes received
//!             └── rows that cannot be read ──▶ Rejects: counted, the first shown, refused beyond a limit
//! ```

mod arrow;
mod conform;
mod dialect;
mod load;
mod ndjson;
mod ndjson_fault;
mod parquet_check;
mod parquet_file;
mod plain;
mod rejects;
mod split;
mod texts;
mod uuids;

#[cfg(test)]
mod fuzz;

pub use arrow::{ArrowStream, schema_of_message};
pub use dialect::Dialect;
pub use load::{Decode, Load, LoadRequest, Loaded, RowFormat, Target};
pub use plain::plain_bytes;
pub use rejects::{Reject, Rejects};
