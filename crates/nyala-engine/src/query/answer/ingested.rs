//! The outcome of a load.

/// The outcome of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ingested {
    /// Rows that were written.
    pub rows: u64,
    /// Rows that were left out because they could not be read.
    pub rejected: u64,
    /// LSN of its last statement; none if there was none.
    pub lsn: Option<u64>,
    /// Whether an earlier load of the same label did the work, and this load did nothing.
    pub before: bool,
}

impl Ingested {
    /// A notice for the client, besides the number of rows.
    pub fn notice(&self) -> Option<String> {
        let lsn = self.lsn.unwrap_or_default();
        self.before.then(|| format!("this load was done before, at LSN {lsn}, and was not done again"))
    }
}
