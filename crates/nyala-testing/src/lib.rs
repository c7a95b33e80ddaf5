//! For tests: programs that they need beside them, each in a folder of its own and gone when the test's process is.

mod postgres;

pub use postgres::PostgresServer;
