//! Values to bytes and back. No input is trusted: malformed bytes give `None`, and the caller, which knows file and
//! offset, reports damage.

mod bytes;
mod flat;
mod growing;
mod plain;
mod rows;
mod skip;
mod text_bytes;
mod types;

pub use bytes::{In, Out};
pub use flat::{Flat, Part, child_types, flatten, inflate, rebase};
pub use growing::Growing;
pub use plain::{canonical_key, fit, plain_field};
pub use rows::{read_count, read_rows, write_rows};
pub use skip::skip;
pub use text_bytes::text_bytes;
pub use types::{check_key_type, read_type, write_type};
