//! The settings that clients of PostgreSQL set and read, with the values that each accepts.

use nyala_pg::SERVER_VERSION;

/// One setting.
#[derive(Debug)]
pub struct Definition {
    /// The name as PostgreSQL spells it.
    pub name: &'static str,
    pub default: &'static str,
    pub rule: Rule,
    /// Whether clients are told each change of the value.
    pub reported: bool,
}

/// The rule for the values of a setting.
#[derive(Debug)]
pub enum Rule {
    /// The setting describes the server, and cannot be set.
    Fixed,
    Any,
    Boolean,
    /// A whole number between these bounds, both included.
    Integer(i64, i64),
    OneOf(&'static [&'static str]),
    /// A time, in any of PostgreSQL's units; kept in milliseconds. 0 means no limit.
    Time,
    /// Memory: kilobytes, or a number with a unit.
    Memory,
    /// Only UTF-8, under any of its names.
    Utf8,
    /// Only ISO, with any order of day and month: ISO dates have but one.
    IsoDate,
}

const fn setting(name: &'static str, default: &'static str, rule: Rule, reported: bool) -> Definition {
    Definition { name, default, rule, reported }
}

/// The setting that bounds the silence of a client within a transaction.
pub const IDLE_IN_TRANSACTION: &str = "idle_in_transaction_session_timeout";
/// The setting that bounds the silence of a client outside of transactions.
pub const IDLE_SESSION: &str = "idle_session_timeout";

const ISOLATION_LEVELS: &[&str] = &["read committed", "read uncommitted", "repeatable read", "serializable"];

/// All settings of the door.
pub const DEFINITIONS: &[Definition] = &[
    setting("DateStyle", "ISO, MDY", Rule::IsoDate, true),
    setting("IntervalStyle", "postgres", Rule::OneOf(INTERVAL_STYLES), true),
    setting("application_name", "", Rule::Any, true),
    setting("backslash_quote", "safe_encoding", Rule::Any, false),
    setting("block_size", "8192", Rule::Fixed, false),
    setting("bytea_output", "hex", Rule::OneOf(&["hex", "escape"]), false),
    setting("check_function_bodies", "on", Rule::Boolean, false),
    setting("client_encoding", "UTF8", Rule::Utf8, true),
    setting("client_min_messages", "notice", Rule::OneOf(MESSAGE_LEVELS), false),
    setting("default_table_access_method", "heap", Rule::Any, false),
    setting("escape_string_warning", "on", Rule::Boolean, false),
    setting("extra_float_digits", "1", Rule::Integer(-15, 3), false),
    setting("geqo", "on", Rule::Boolean, false),
    setting(IDLE_IN_TRANSACTION, "0", Rule::Time, false),
    setting(IDLE_SESSION, "0", Rule::Time, false),
    setting("in_hot_standby", "off", Rule::Fixed, true),
    setting("integer_datetimes", "on", Rule::Fixed, true),
    setting("is_superuser", "off", Rule::Fixed, true),
    setting("jit", "off", Rule::Boolean, false),
    setting("lc_collate", "C", Rule::Fixed, false),
    setting("lc_ctype", "C", Rule::Fixed, false),
    setting("lc_messages", "C", Rule::Any, false),
    setting("lc_monetary", "C", Rule::Any, false),
    setting("lock_timeout", "0", Rule::Time, false),
    setting("maintenance_work_mem", "64MB", Rule::Memory, false),
    setting("max_connections", "100", Rule::Fixed, false),
    setting("max_identifier_length", "63", Rule::Fixed, false),
    setting("max_index_keys", "32", Rule::Fixed, false),
    setting("password_encryption", "scram-sha-256", Rule::Fixed, false),
    setting("quote_all_identifiers", "off", Rule::Boolean, false),
    setting("role", "none", Rule::OneOf(&["none"]), false),
    setting("row_security", "on", Rule::Boolean, false),
    setting("server_encoding", "UTF8", Rule::Fixed, true),
    setting("server_version", SERVER_VERSION, Rule::Fixed, true),
    setting("server_version_num", "150000", Rule::Fixed, false),
    setting("session_authorization", "", Rule::Fixed, true),
    setting("standard_conforming_strings", "on", Rule::OneOf(&["on"]), true),
    setting("synchronize_seqscans", "on", Rule::Boolean, false),
    setting("synchronous_commit", "on", Rule::Any, false),
    setting("transaction_isolation", "read committed", Rule::OneOf(ISOLATION_LEVELS), false),
    setting("transaction_read_only", "off", Rule::Boolean, false),
    setting("work_mem", "4MB", Rule::Memory, false),
    setting("xmloption", "content", Rule::Any, false),
];

/// First parts of the names of the engine's settings.
pub const SERVER_PARTS: [&str; 2] = ["nyala", "datafusion"];

/// The setting that makes transactions to come read-only.
pub const READ_ONLY: &str = "default_transaction_read_only";

const INTERVAL_STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

const MESSAGE_LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error", "info", "debug"];
