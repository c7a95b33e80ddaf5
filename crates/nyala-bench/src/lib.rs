//! The load generator, and the data that it loads servers with.
//!
//! Both are compiled with full optimization, as the server is: on the measured machine, they take CPU time from it.

pub mod bench;
pub mod generate;
