//! Exact counts of distinct values of any type that has one spelling.

mod bitmap_distinct;
mod dictionary;
mod encoding;
mod kind;

pub use bitmap_distinct::BitmapDistinct;

#[cfg(test)]
mod tests;
