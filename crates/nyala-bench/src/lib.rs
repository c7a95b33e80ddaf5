//! The load generator, and the data that it loads servers with.
//!
//! Both are compiled as fully as a server is: on the machine that is measured, what a client costs the server lacks.

pub mod bench;
pub mod generate;
