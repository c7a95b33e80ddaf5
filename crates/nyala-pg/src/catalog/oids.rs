//! Object identifiers, made of what never changes: the ids of the catalog, and names.
//!
//! ```text
//! below 16384        PostgreSQL's own objects, with PostgreSQL's numbers where tools know them
//! 16384 + 8 × id     a table or view; then its index, its constraint and its rule
//! 0x4000_0000 …      the default of a column
//! 0x6000_0000 …      a role, by its name
//! 0x7000_0000 …      a schema, by its name
//! ```

use nyala_model::TableId;

/// The schema of PostgreSQL's system tables.
pub const PG_CATALOG: i32 = 11;
/// The database.
pub const DATABASE: i32 = 16_383;
/// The table of tables.
pub const PG_CLASS: i32 = 1259;
/// The table of rules.
pub const PG_REWRITE: i32 = 2618;
/// The role that owns the server's data.
pub const OWNER: i32 = 10;

const FIRST: i64 = 16_384;
/// `information_schema` has the number that its types and functions name as their schema in PostgreSQL's static tables.
const SCHEMAS: &[(&str, i32)] =
    &[("pg_catalog", PG_CATALOG), ("public", 2200), ("information_schema", 13_283), ("system", 13_001)];

/// System tables with a number that tools know.
const KNOWN: &[(&str, i32)] = &[
    ("pg_aggregate", 2600),
    ("pg_am", 2601),
    ("pg_amop", 2602),
    ("pg_amproc", 2603),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_auth_members", 1261),
    ("pg_authid", 1260),
    ("pg_cast", 2605),
    ("pg_class", PG_CLASS),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_conversion", 2607),
    ("pg_database", 1262),
    ("pg_default_acl", 826),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_event_trigger", 3466),
    ("pg_extension", 3079),
    ("pg_foreign_data_wrapper", 2328),
    ("pg_foreign_server", 1417),
    ("pg_foreign_table", 3118),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_language", 2612),
    ("pg_largeobject", 2613),
    ("pg_namespace", 2615),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_opfamily", 2753),
    ("pg_policy", 3256),
    ("pg_proc", 1255),
    ("pg_publication", 6104),
    ("pg_range", 3541),
    ("pg_rewrite", PG_REWRITE),
    ("pg_sequence", 2224),
    ("pg_shdescription", 2396),
    ("pg_statistic_ext", 3381),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_ts_config", 3602),
    ("pg_ts_dict", 3600),
    ("pg_ts_parser", 3601),
    ("pg_ts_template", 3764),
    ("pg_type", 1247),
];

/// Parts of a table that are objects themselves.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Table = 0,
    Index = 1,
    Constraint = 2,
    Rule = 3,
}

/// A table, or a part of it.
pub fn table(id: TableId, part: Part) -> i32 {
    let number = i64::try_from(id.0).unwrap_or(i64::MAX).wrapping_mul(8).wrapping_add(FIRST + part as i64);
    within(number, 0, 0x3fff_ffff)
}

/// The default of a column of a table.
pub fn default_of(table: i32, column: i16) -> i32 {
    within(i64::from(table) * 64 + i64::from(column), 0x4000_0000, 0x1fff_ffff)
}

/// A schema.
pub fn schema(name: &str) -> i32 {
    let known = SCHEMAS.iter().find(|(schema, _)| *schema == name).map(|(_, oid)| *oid);
    known.unwrap_or_else(|| within(hash(name), 0x7000_0000, 0x0fff_ffff))
}

/// A role.
pub fn role(name: &str) -> i32 {
    within(hash(name), 0x6000_0000, 0x0fff_ffff)
}

/// The table at a place in the list of the tables of a system schema.
pub fn system_table(schema: i32, name: &str, place: usize) -> i32 {
    let known = KNOWN.iter().find(|(table, _)| schema == PG_CATALOG && *table == name);
    let first = match schema {
        PG_CATALOG => 14_000,
        13_283 => 14_500,
        _ => 15_000,
    };
    known.map_or_else(|| first + i32::try_from(place).unwrap_or_default(), |(_, oid)| *oid)
}

fn within(number: i64, base: i32, mask: i64) -> i32 {
    base | i32::try_from(number & mask).unwrap_or_default()
}

/// FNV-1a, the same in every version of the server.
fn hash(name: &str) -> i64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 33) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_apart() {
        assert_eq!(table(TableId(1), Part::Table), 16_392);
        assert_eq!(table(TableId(1), Part::Constraint), 16_394);
        assert_eq!(schema("public"), 2200);
        assert_ne!(schema("shop"), schema("shops"));
        assert!(table(TableId(u64::MAX), Part::Table) >= 0);
        assert!(schema("shop") > 0 && role("ann") > 0 && default_of(16_392, 3) > 0);
    }
}
