//! The configuration: defaults, file, environment and flags, in this order; the last that sets a key
//! wins. It is loaded once, when the process starts.

mod command;
mod layer;
mod load;
mod show;

#[cfg(test)]
mod tests;

pub use command::command;
pub use layer::Flag;
pub use load::{Loaded, load};
