//! Live tables: rows with a primary key that change, as tables that DataFusion scans.
//!
//! The bytes are the business of `nyala_storage::oplog`. Here disk stores are opened in the background
//! ([`LiveStores`]), tables are found in them ([`LiveRef`]), scanned at one version for each statement ([`Pins`]), and
//! looked up by key where a condition names keys.

mod changes;
mod column_rules;
mod keys;
mod options;
mod pins;
mod provider;
mod prune;
mod recovery;
mod scan;
mod store;
mod stores;
mod table;

pub use changes::{Changes, ChangesProvider, Finder, change_rows, change_schema};
pub use options::{check_options, durability};
pub use pins::Pins;
pub use provider::{LiveProvider, ROW_NUMBER, ROW_VERSION, row_number, shown};
pub use recovery::{Recovery, phase_name, recoveries};
pub use scan::LiveScanExec;
pub use store::{OpenStore, OpenedAt, StoreState};
pub use stores::LiveStores;
pub use table::LiveRef;
