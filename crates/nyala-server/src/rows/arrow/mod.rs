//! Arrow IPC streams, from clients that need not be honest.
//!
//! ```text
//! bytes ─▶ frames: whole messages, none longer than allowed ─▶ schema, layout: every length of the message
//!          compared with the received bytes ─▶ arrow-ipc, which validates values ─▶ batches
//! ```
//!
//! arrow-ipc trusts the lengths of a message: it allocates the announced size of a compressed buffer, and slices the
//! body by offsets that may lie outside of it. So nothing reaches it that has not been checked here. New types and
//! new parts of a schema are added to `schema.rs` and `layout.rs` first; types that are not listed there are refused.
//!
//! Source: Arrow Columnar Format, "Serialization and Interprocess Communication".

mod frames;
mod layout;
mod refusal;
mod schema;
mod stream;

pub use schema::check_arrow_schema;
pub use stream::{ArrowStream, schema_of_message};
