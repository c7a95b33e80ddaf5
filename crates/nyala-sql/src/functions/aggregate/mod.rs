//! The common part of our own aggregates: how rows reach groups, and how states become bytes.

mod bytes;
mod definition;
mod groups;
mod held;
mod kind;
mod single;

pub(super) use bytes::{Form, Reader, begin, damaged, put_varint};
pub(super) use definition::{Accumulators, Definition, aggregate};
pub(super) use groups::{GroupList, Measured, Rows};
pub(super) use held::Held;
pub(super) use kind::Kind;

#[cfg(test)]
pub(super) use groups::Grouped;
#[cfg(test)]
pub(super) use single::Single;
