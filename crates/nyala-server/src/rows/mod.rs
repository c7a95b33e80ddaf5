//! Rows that clients send, in the formats they send them in, on their way into a live table.
//!
//! ```text
//! bytes ──▶ Decode (CSV, text, NDJSON, Arrow, Parquet; a door's own) ──▶ batches ──▶ Ingest
//!             └── rows that cannot be read ──▶ Rejects: counted, the first shown, refused beyond a limit
//! ```

mod columnar;
mod dialect;
mod load;
mod ndjson;
mod rejects;
mod split;
mod texts;

pub(crate) use dialect::Dialect;
pub(crate) use load::{Decode, Load, LoadRequest, RowFormat, Target};
pub(crate) use rejects::{Reject, Rejects};
