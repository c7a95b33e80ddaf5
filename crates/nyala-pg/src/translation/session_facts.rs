//! Values of a session, for functions and tables that show them.

/// Values of the session, for session functions.
pub trait SessionFacts {
    /// Value of a setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// All settings that clients look for, with their values.
    fn settings(&self) -> Vec<(String, String)>;
    /// Name the client gave at start-up.
    fn user(&self) -> String;
    /// The role whose privileges count: the owner of the data for a client that may do everything without being one.
    fn role(&self) -> String;
    /// The process id that a cancel request names.
    fn process_id(&self) -> i32;
    /// The token of the connection, for functions that act on it.
    fn token(&self) -> String;
    /// Address of the client.
    fn client(&self) -> String;
    /// The prepared statements.
    fn prepared(&self) -> Vec<PreparedFact>;
    /// The open cursors.
    fn cursors(&self) -> Vec<CursorFact>;
}

/// A row of `pg_prepared_statements`.
#[derive(Debug, Clone)]
pub struct PreparedFact {
    /// Name of the statement.
    pub name: String,
    /// Text of the statement.
    pub text: String,
    /// Time of PREPARE, in microseconds since 1970.
    pub begun_us: i64,
    /// Names of the types of its parameters.
    pub types: Vec<String>,
}

/// A row of `pg_cursors`.
#[derive(Debug, Clone)]
pub struct CursorFact {
    /// Name of the cursor.
    pub name: String,
    /// Its query, as text.
    pub text: String,
    /// Time when its query was prepared, in microseconds since 1970.
    pub begun_us: i64,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// Whether it can move to any row, also backwards.
    pub scroll: bool,
}
