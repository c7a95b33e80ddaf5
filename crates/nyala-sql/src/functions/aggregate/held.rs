//! A group that keeps its state as it came, as long as it has only one.

use datafusion::common::Result;

use super::groups::Measured;
use crate::error::QueryError;

/// A set that may still be packed. A query that wants exactly the cells of a cuboid gives every group one
/// state; its count is in its header, and unpacking it would be most of the query's work.
#[derive(Debug, Default)]
pub enum Held<S> {
    /// No values yet.
    #[default]
    Empty,
    /// One state, not decoded.
    Packed(Box<[u8]>),
    /// A set that rows or further states were added to.
    Open(S),
}

impl<S: Measured> Measured for Held<S> {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Packed(bytes) => bytes.len(),
            Self::Open(set) => set.heap_bytes(),
        }
    }
}

impl<S: Default> Held<S> {
    /// The set, for changing it. A packed set is decoded first; if that fails it stays packed.
    #[inline]
    pub fn open(&mut self, unpack: impl FnOnce(&[u8]) -> Result<S>) -> Result<&mut S> {
        match self {
            Self::Open(_) => {}
            Self::Empty => *self = Self::Open(S::default()),
            Self::Packed(bytes) => *self = Self::Open(unpack(bytes)?),
        }
        match self {
            Self::Open(set) => Ok(set),
            _ => Err(QueryError::internal("a set did not open").into()),
        }
    }
}
