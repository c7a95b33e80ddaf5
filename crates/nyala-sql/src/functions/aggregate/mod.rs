//! The common part of our own aggregates: how rows reach groups, and how states become bytes.

mod bytes;
mod definition;
mod groups;
mod held;
mod kind;
mod single;

pub use bytes::{Form, Reader, begin, damaged, put_varint};
pub use definition::{Accumulators, Definition, aggregate};
pub use groups::{GroupList, Measured, Rows, states_of_rows};
pub use held::Held;
pub use kind::Kind;

#[cfg(test)]
pub use groups::Grouped;
#[cfg(test)]
pub use single::Single;
