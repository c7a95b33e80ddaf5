//! Files in statements: read by their locations in the place of tables, and written by COPY TO.

mod copy_to;
mod encode;
mod open;
mod options;
mod upload;

pub use copy_to::CopyRowsTo;
pub use open::{planned, with_files};
