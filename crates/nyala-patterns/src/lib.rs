//! PostgreSQL's template patterns: `to_char`, `to_date`, `to_timestamp` and `to_number`.
//!
//! A pattern is compiled once, then writes or reads many values:
//!
//! ```
//! use nyala_patterns::{Moment, Template};
//!
//! let template = Template::for_times("YYYY-MM-DD HH24:MI")?;
//! let moment = Moment { year: 2024, month: 2, day: 29, hour: 13, minute: 5, ..Moment::default() };
//! let mut out = String::new();
//! template.write(&moment, &mut out);
//! assert_eq!(out, "2024-02-29 13:05");
//! # Ok::<(), nyala_patterns::PatternError>(())
//! ```
//!
//! The reference is PostgreSQL 15 with the locale `C` (its chapter "Data Type Formatting Functions", and its
//! behaviour where the chapter is silent). `DIFFERENCES.md` lists where this crate answers otherwise.
//!
//! This crate knows no session: the time zone, the NULL that an empty pattern gives and the infinite
//! timestamps belong to the caller. It never panics on a pattern, a text or a number, and its work is linear
//! in the length of the pattern and of the text.

mod calendar;
mod error;
mod keywords;
mod literals;
mod moment;
mod names;
mod number_digits;
mod number_floats;
mod number_read;
mod number_shape;
mod number_template;
mod number_tokens;
mod number_write;
mod read;
mod roman;
mod scan;
mod span;
mod template;
mod times_read;
mod times_resolve;
mod times_write;
mod tokens;

pub use error::PatternError;
pub use moment::Moment;
pub use number_template::NumberTemplate;
pub use read::Read;
pub use span::Span;
pub use template::Template;
