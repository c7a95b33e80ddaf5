//! Locations and the object stores behind them.

pub mod cache;
mod files;
mod location;
mod open;
mod own;
mod refusal;
mod rules;
mod version;

pub use location::Location;
pub use own::{OwnPaths, real_path};
pub use refusal::refusal;
pub use rules::{AllowedLocation, LocationRules};
pub use version::{FileChanged, Version};
