//! Logs: changes in order, framed and checksummed.

mod file;
mod frame;
mod names;
mod scan;

pub use file::{Log, LogHeader};
pub use frame::{Frame, Kind, Record, TABLE_LIMIT};
pub use names::{log_name, log_number};
pub use scan::{ScanEnd, confirmed_further_on, has_flipped_bit, scan, scan_around_damage, written_end};
