//! Counts of statements by their result.

use metrics::Counter;

/// Counters of all connections' statements by result. Each connection keeps them, because a look-up takes a lock and an allocation.
pub struct Counted {
    pub ok: Counter,
    pub error: Counter,
    pub cancelled: Counter,
}

impl Counted {
    /// The counters of the process.
    pub fn find() -> Self {
        let of =
            |result: &'static str| ::metrics::counter!("nyala_postgres_statements_total", "result" => result);
        Self { ok: of("ok"), error: of("error"), cancelled: of("cancelled") }
    }
}
