//! Server programs that tests start, each in a folder of its own and ended with the test's process.

mod postgres;

pub use postgres::PostgresServer;
