//! Locations and the object stores behind them.

pub mod cache;
mod counted;
mod files;
mod kind;
mod location;
mod open;
mod opened;
mod own;
mod refusal;
mod rules;
mod version;
mod versioned_file;

pub use counted::StoreCounts;
pub use kind::StoreKind;
pub use location::Location;
pub use open::open_data;
pub use opened::{OpenedStore, Reader, store_url, url_of};
pub use own::{OwnPaths, real_path};
pub use refusal::refusal;
pub use rules::{AllowedLocation, LocationRules};
pub use version::{FileChanged, Version};
