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

pub(crate) use bytes::{In, Out};
pub(crate) use flat::{Flat, Part, child_types, flatten, inflate, rebase};
pub(crate) use growing::Growing;
pub(crate) use plain::{canonical_key, fit, plain_field};
pub(crate) use rows::{read_count, read_rows, write_rows};
pub(crate) use skip::skip;
pub(crate) use text_bytes::text_bytes;
pub(crate) use types::{check_key_type, read_type, write_type};
