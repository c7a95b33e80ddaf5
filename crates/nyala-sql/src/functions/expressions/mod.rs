//! Regular expressions as PostgreSQL writes them, and the functions that take them.

mod compiled;
mod functions;
mod language;
mod replace;
mod similar;

pub use functions::functions;
pub use language::translated;
pub use replace::Replace;
pub use similar::similar_inner;
