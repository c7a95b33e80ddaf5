//! Locations and the object stores behind them.

mod location;
mod open;

pub use location::Location;
pub use open::{check_allowed, open};
