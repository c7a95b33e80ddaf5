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

pub use integers::{as_integers, is_integral};
pub use intersect::IntersectCount;
pub use kind::{BitmapKind, Input, Output, count_column};
pub use scalar::scalars;
pub use set::Bitmap;
pub use union::{BitmapAgg, BitmapUnion, BitmapUnionCount};

#[cfg(test)]
mod tests;
