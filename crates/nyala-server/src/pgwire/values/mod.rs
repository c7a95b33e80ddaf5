//! Values: parameters that come, and rows that go, as text and in binary.

pub mod arrays;
pub mod binary_rows;
pub mod cells;
pub mod columns;
pub mod encode;
pub mod form;
pub mod interval_styles;
pub mod lists;
pub mod local_time;
pub mod numeric;
pub mod parameters;
pub mod render;
