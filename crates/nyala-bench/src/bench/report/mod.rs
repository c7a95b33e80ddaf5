//! The report of a run: on the terminal, as JSON, and as a page with charts.

mod chart;
mod course;
mod document;
mod html;
mod table;

pub use document::{Beside, Ceiling, Report, RunReport, Setup};
pub use html::page;
pub use table::table;
