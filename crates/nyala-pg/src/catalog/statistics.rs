//! What PostgreSQL tells of a running server: activity, locks, statistics of tables, time zones, extensions.
//!
//! Counters that the server does not keep are zero, as after a reset of PostgreSQL's statistics.

use super::cells::{Cell, Kind, Row, row};
use super::database::{DATABASE as DATABASE_NAME, Relation};
use super::oids;
use super::tables::Definition;

use Kind::{Bool, Int2, Int4, Int8, Oid, Text, Time};

pub const ACTIVITY_COLUMNS: &[(&str, Kind)] = &[
    ("datid", Oid),
    ("datname", Text),
    ("pid", Int4),
    ("leader_pid", Int4),
    ("usesysid", Oid),
    ("usename", Text),
    ("application_name", Text),
    ("client_addr", Text),
    ("client_hostname", Text),
    ("client_port", Int4),
    ("backend_start", Time),
    ("xact_start", Time),
    ("query_start", Time),
    ("state_change", Time),
    ("wait_event_type", Text),
    ("wait_event", Text),
    ("state", Text),
    ("backend_xid", Int4),
    ("backend_xmin", Int4),
    ("query_id", Int8),
    ("query", Text),
    ("backend_type", Text),
];

pub const LOCKS: Definition = Definition {
    name: "pg_locks",
    columns: &[
        ("locktype", Text),
        ("database", Oid),
        ("relation", Oid),
        ("page", Int4),
        ("tuple", Int2),
        ("virtualxid", Text),
        ("transactionid", Int4),
        ("classid", Oid),
        ("objid", Oid),
        ("objsubid", Int2),
        ("virtualtransaction", Text),
        ("pid", Int4),
        ("mode", Text),
        ("granted", Bool),
        ("fastpath", Bool),
        ("waitstart", Time),
    ],
    // Statements take no locks: each reads one snapshot.
    rows: |_| Vec::new(),
};

pub const PREPARED_XACTS: Definition = Definition {
    name: "pg_prepared_xacts",
    columns: &[("transaction", Int4), ("gid", Text), ("prepared", Time), ("owner", Text), ("database", Text)],
    rows: |_| Vec::new(),
};

pub const DATABASE: Definition = Definition {
    name: "pg_stat_database",
    columns: &[
        ("datid", Oid),
        ("datname", Text),
        ("numbackends", Int4),
        ("xact_commit", Int8),
        ("xact_rollback", Int8),
        ("blks_read", Int8),
        ("blks_hit", Int8),
        ("tup_returned", Int8),
        ("tup_fetched", Int8),
        ("tup_inserted", Int8),
        ("tup_updated", Int8),
        ("tup_deleted", Int8),
        ("conflicts", Int8),
        ("temp_files", Int8),
        ("temp_bytes", Int8),
        ("deadlocks", Int8),
        ("checksum_failures", Int8),
        ("checksum_last_failure", Time),
        ("blk_read_time", Kind::Float4),
        ("blk_write_time", Kind::Float4),
        ("sessions", Int8),
        ("sessions_abandoned", Int8),
        ("sessions_fatal", Int8),
        ("sessions_killed", Int8),
        ("stats_reset", Time),
    ],
    rows: |_| {
        let mut row = row![oids::DATABASE, DATABASE_NAME];
        row.extend(zeros(15));
        row.extend(row![Cell::Null, Cell::Float(0.0), Cell::Float(0.0)]);
        row.extend(zeros(4));
        vec![row]
    },
};

fn zeros(count: usize) -> impl Iterator<Item = Cell> {
    std::iter::repeat_n(Cell::Int(0), count)
}

const TABLE_COLUMNS: &[(&str, Kind)] = &[
    ("relid", Oid),
    ("schemaname", Text),
    ("relname", Text),
    ("seq_scan", Int8),
    ("seq_tup_read", Int8),
    ("idx_scan", Int8),
    ("idx_tup_fetch", Int8),
    ("n_tup_ins", Int8),
    ("n_tup_upd", Int8),
    ("n_tup_del", Int8),
    ("n_tup_hot_upd", Int8),
    ("n_live_tup", Int8),
    ("n_dead_tup", Int8),
    ("n_mod_since_analyze", Int8),
    ("n_ins_since_vacuum", Int8),
    ("last_vacuum", Time),
    ("last_autovacuum", Time),
    ("last_analyze", Time),
    ("last_autoanalyze", Time),
    ("vacuum_count", Int8),
    ("autovacuum_count", Int8),
    ("analyze_count", Int8),
    ("autoanalyze_count", Int8),
];

pub const STAT_USER_TABLES: Definition = Definition {
    name: "pg_stat_user_tables",
    columns: TABLE_COLUMNS,
    rows: |database| {
        database.facts().users().filter(|relation| !relation.is_view()).map(table_statistics).collect()
    },
};

pub const STAT_ALL_TABLES: Definition = Definition {
    name: "pg_stat_all_tables",
    columns: TABLE_COLUMNS,
    rows: |database| {
        let tables = database.facts().relations.iter().filter(|relation| !relation.is_view());
        tables.map(table_statistics).collect()
    },
};

fn table_statistics(table: &Relation) -> Row {
    let mut row = row![table.oid, &table.schema, &table.name];
    row.extend(zeros(12));
    row.extend(std::iter::repeat_n(Cell::Null, 4));
    row.extend(zeros(4));
    row
}

const INDEX_COLUMNS: &[(&str, Kind)] = &[
    ("relid", Oid),
    ("indexrelid", Oid),
    ("schemaname", Text),
    ("relname", Text),
    ("indexrelname", Text),
    ("idx_scan", Int8),
    ("idx_tup_read", Int8),
    ("idx_tup_fetch", Int8),
];

pub const STAT_USER_INDEXES: Definition = Definition {
    name: "pg_stat_user_indexes",
    columns: INDEX_COLUMNS,
    rows: |database| database.facts().with_key().map(index_statistics).collect(),
};

pub const STAT_ALL_INDEXES: Definition = Definition { name: "pg_stat_all_indexes", ..STAT_USER_INDEXES };

fn index_statistics(table: &Relation) -> Row {
    let mut row = row![table.oid, table.index_oid, &table.schema, &table.name, table.key_name()];
    row.extend(zeros(3));
    row
}

pub const STATIO_USER_TABLES: Definition = Definition {
    name: "pg_statio_user_tables",
    columns: &[
        ("relid", Oid),
        ("schemaname", Text),
        ("relname", Text),
        ("heap_blks_read", Int8),
        ("heap_blks_hit", Int8),
        ("idx_blks_read", Int8),
        ("idx_blks_hit", Int8),
        ("toast_blks_read", Int8),
        ("toast_blks_hit", Int8),
        ("tidx_blks_read", Int8),
        ("tidx_blks_hit", Int8),
    ],
    rows: |database| {
        let tables = database.facts().users().filter(|relation| !relation.is_view());
        let row = |table: &Relation| {
            let mut row = row![table.oid, &table.schema, &table.name];
            row.extend(zeros(8));
            row
        };
        tables.map(row).collect()
    },
};

pub const AVAILABLE_EXTENSIONS: Definition = Definition {
    name: "pg_available_extensions",
    columns: &[("name", Text), ("default_version", Text), ("installed_version", Text), ("comment", Text)],
    rows: |_| vec![row!["plpgsql", "1.0", "1.0", "PL/pgSQL procedural language"]],
};

pub const TIMEZONE_NAMES: Definition = Definition {
    name: "pg_timezone_names",
    columns: &[("name", Text), ("abbrev", Text), ("utc_offset", Kind::Interval), ("is_dst", Bool)],
    rows: |_| {
        let now = chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now());
        chrono_tz::TZ_VARIANTS.iter().map(|zone| zone_row(*zone, now)).collect()
    },
};

fn zone_row(zone: chrono_tz::Tz, now: chrono::DateTime<chrono::Utc>) -> Row {
    use chrono::{Offset, TimeZone};
    use chrono_tz::{OffsetComponents, OffsetName};
    let offset = zone.offset_from_utc_datetime(&now.naive_utc());
    let abbreviation = offset.abbreviation().unwrap_or_default().to_owned();
    let is_summer = !offset.dst_offset().is_zero();
    let seconds = i64::from(offset.fix().local_minus_utc());
    row![zone.name(), abbreviation, Cell::Interval(seconds), is_summer]
}
