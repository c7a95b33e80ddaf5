//! Locations and the object stores behind them.

mod location;
mod open;
mod refusal;

pub use location::Location;
pub use open::{check_allowed, open};
pub use refusal::refusal;
