//! Sets of integers, exact: the bitmap type, its functions and its aggregates.

mod arguments;
mod encoding;
mod integers;
mod intersect;
mod kind;
mod operations;
mod scalar;
mod set;
mod text;
mod union;

pub(super) use integers::{as_integers, is_integral};
pub(super) use intersect::IntersectCount;
pub(super) use kind::{BitmapKind, Input, Output, count_column};
pub(super) use scalar::scalars;
pub(super) use set::Bitmap;
pub(super) use union::{BitmapAgg, BitmapUnion, BitmapUnionCount};

#[cfg(test)]
mod tests;
