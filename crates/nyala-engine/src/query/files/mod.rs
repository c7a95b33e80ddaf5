//! Files in statements: read by their locations in the place of tables, and written by COPY TO.

mod copy_to;
mod csv_lines;
mod encode;
mod open;
mod options;
mod upload;

pub use copy_to::CopyRowsTo;
pub use open::{planned, with_files};
pub use options::{compression_in_name, format_in_name, is_tab_separated};
