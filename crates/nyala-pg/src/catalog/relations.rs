//! `pg_class` and the tables about parts of relations: columns, defaults, indexes and constraints.

use super::cells::{Cell, Kind, Row, row};
use super::column_types::array_element;
use super::database::{Column, Database, Relation};
use super::oids::{self, OWNER};
use super::tables::Definition;

use Kind::{Bool, Char, Float4, Int2, Int2List, Int2Vector, Int4, Oid, OidList, OidVector, Text, TextList};

/// The access methods of tables and of indexes.
const HEAP: i32 = 2;
const BTREE: i32 = 403;
const DEFAULT_COLLATION: i32 = 100;

pub const CLASS: Definition = Definition {
    name: "pg_class",
    columns: &[
        ("oid", Oid),
        ("relname", Text),
        ("relnamespace", Oid),
        ("reltype", Oid),
        ("reloftype", Oid),
        ("relowner", Oid),
        ("relam", Oid),
        ("relfilenode", Oid),
        ("reltablespace", Oid),
        ("relpages", Int4),
        ("reltuples", Float4),
        ("relallvisible", Int4),
        ("reltoastrelid", Oid),
        ("relhasindex", Bool),
        ("relisshared", Bool),
        ("relpersistence", Char),
        ("relkind", Char),
        ("relnatts", Int2),
        ("relchecks", Int2),
        ("relhasrules", Bool),
        ("relhastriggers", Bool),
        ("relhassubclass", Bool),
        ("relrowsecurity", Bool),
        ("relforcerowsecurity", Bool),
        ("relispopulated", Bool),
        ("relreplident", Char),
        ("relispartition", Bool),
        ("relrewrite", Oid),
        ("relfrozenxid", Int4),
        ("relminmxid", Int4),
        ("relacl", TextList),
        ("reloptions", TextList),
        ("relpartbound", Text),
    ],
    rows: |database| {
        let facts = database.facts();
        let indexes = facts.with_key().map(index_row);
        facts.relations.iter().map(relation_row).chain(indexes).collect()
    },
};

fn relation_row(relation: &Relation) -> Row {
    let method = if relation.is_view() { 0 } else { HEAP };
    let has_key = !relation.key.is_empty();
    class_row(relation, (relation.oid, relation.name.clone()), relation.letter(), method, has_key)
}

fn index_row(relation: &Relation) -> Row {
    class_row(relation, (relation.index_oid, relation.key_name()), "i", BTREE, false)
}

fn class_row(
    relation: &Relation,
    (oid, name): (i32, String),
    letter: &'static str,
    method: i32,
    has_index: bool,
) -> Row {
    let columns = if letter == "i" { relation.key.len() } else { relation.columns.len() };
    let file = if letter == "v" { 0 } else { oid };
    row![
        oid,
        name,
        relation.schema_oid(),
        0,
        0,
        OWNER,
        method,
        file,
        0,
        0,
        Cell::Float(-1.0),
        0,
        0,
        has_index,
        false,
        "p",
        letter,
        i16::try_from(columns).unwrap_or(i16::MAX),
        0,
        letter == "v",
        false,
        false,
        false,
        false,
        true,
        if letter == "r" { "d" } else { "n" },
        false,
        0,
        0,
        0,
    ]
}

pub const ATTRIBUTE: Definition = Definition {
    name: "pg_attribute",
    columns: &[
        ("attrelid", Oid),
        ("attname", Text),
        ("atttypid", Oid),
        ("attstattarget", Int4),
        ("attlen", Int2),
        ("attnum", Int2),
        ("attndims", Int4),
        ("attcacheoff", Int4),
        ("atttypmod", Int4),
        ("attbyval", Bool),
        ("attalign", Char),
        ("attstorage", Char),
        ("attcompression", Char),
        ("attnotnull", Bool),
        ("atthasdef", Bool),
        ("atthasmissing", Bool),
        ("attidentity", Char),
        ("attgenerated", Char),
        ("attisdropped", Bool),
        ("attislocal", Bool),
        ("attinhcount", Int4),
        ("attcollation", Oid),
        ("attacl", TextList),
        ("attoptions", TextList),
        ("attfdwoptions", TextList),
        ("attmissingval", TextList),
    ],
    rows: |database| {
        let facts = database.facts();
        let of_tables = facts.relations.iter().flat_map(|relation| {
            relation.columns.iter().map(|column| attribute_row(relation.oid, column, column.number, true))
        });
        let of_indexes = facts.with_key().flat_map(|relation| {
            relation
                .key_columns()
                .zip(1_i16..)
                .map(|(column, number)| attribute_row(relation.index_oid, column, number, false))
        });
        of_tables.chain(of_indexes).collect()
    },
};

fn attribute_row(relation: i32, column: &Column, number: i16, of_table: bool) -> Row {
    let column_type = &column.column_type;
    let collation = if column_type.is_collatable() { DEFAULT_COLLATION } else { 0 };
    let dimensions = i32::from(array_element(&column_type.kind).is_some());
    row![
        relation,
        &column.name,
        column_type.kind.oid() as i32,
        -1,
        column_type.size(),
        number,
        dimensions,
        -1,
        column_type.modifier,
        column_type.by_value(),
        column_type.alignment(),
        column_type.storage(),
        "",
        of_table && column.not_null,
        of_table && column.default.is_some(),
        false,
        "",
        "",
        false,
        true,
        0,
        collation,
    ]
}

pub const ATTRDEF: Definition = Definition {
    name: "pg_attrdef",
    columns: &[("oid", Oid), ("adrelid", Oid), ("adnum", Int2), ("adbin", Text)],
    rows: |database| {
        let of_relation = |relation: &Relation| {
            let with_default = relation.columns.iter().filter_map(|column| {
                let default = default_text(column)?;
                let oid = oids::default_of(relation.oid, column.number);
                Some(row![oid, relation.oid, column.number, default])
            });
            with_default.collect::<Vec<_>>()
        };
        database.facts().users().flat_map(of_relation).collect()
    },
};

/// The default of a column as PostgreSQL writes it: a text is followed by a cast to its type.
pub fn default_text(column: &Column) -> Option<String> {
    let default = column.default.as_ref()?;
    let is_text = default.len() >= 2 && default.starts_with('\'') && default.ends_with('\'');
    Some(match is_text {
        true => {
            let modifier =
                if column.column_type.length().is_some() { -1 } else { column.column_type.modifier };
            let kind = super::column_types::format_type(column.column_type.kind.oid(), modifier);
            format!("{default}::{kind}")
        }
        false => default.clone(),
    })
}

pub const INDEX: Definition = Definition {
    name: "pg_index",
    columns: &[
        ("indexrelid", Oid),
        ("indrelid", Oid),
        ("indnatts", Int2),
        ("indnkeyatts", Int2),
        ("indisunique", Bool),
        ("indnullsnotdistinct", Bool),
        ("indisprimary", Bool),
        ("indisexclusion", Bool),
        ("indimmediate", Bool),
        ("indisclustered", Bool),
        ("indisvalid", Bool),
        ("indcheckxmin", Bool),
        ("indisready", Bool),
        ("indislive", Bool),
        ("indisreplident", Bool),
        ("indkey", Int2Vector),
        ("indcollation", OidVector),
        ("indclass", OidVector),
        ("indoption", Int2Vector),
        ("indexprs", Text),
        ("indpred", Text),
    ],
    rows: |database| database.facts().with_key().map(key_index_row).collect(),
};

fn key_index_row(relation: &Relation) -> Row {
    let count = i16::try_from(relation.key.len()).unwrap_or(i16::MAX);
    let collation = |column: &Column| if column.column_type.is_collatable() { DEFAULT_COLLATION } else { 0 };
    let collations = relation.key_columns().map(collation).collect();
    row![
        relation.index_oid,
        relation.oid,
        count,
        count,
        true,
        false,
        true,
        false,
        true,
        false,
        true,
        false,
        true,
        true,
        false,
        Cell::Ints(relation.key.clone()),
        Cell::Oids(collations),
        Cell::Oids(vec![0; relation.key.len()]),
        Cell::Ints(vec![0; relation.key.len()]),
    ]
}

pub const CONSTRAINT: Definition = Definition {
    name: "pg_constraint",
    columns: &[
        ("oid", Oid),
        ("conname", Text),
        ("connamespace", Oid),
        ("contype", Char),
        ("condeferrable", Bool),
        ("condeferred", Bool),
        ("convalidated", Bool),
        ("conrelid", Oid),
        ("contypid", Oid),
        ("conindid", Oid),
        ("conparentid", Oid),
        ("confrelid", Oid),
        ("confupdtype", Char),
        ("confdeltype", Char),
        ("confmatchtype", Char),
        ("conislocal", Bool),
        ("coninhcount", Int4),
        ("connoinherit", Bool),
        ("conkey", Int2List),
        ("confkey", Int2List),
        ("conpfeqop", OidList),
        ("conppeqop", OidList),
        ("conffeqop", OidList),
        ("confdelsetcols", Int2List),
        ("conexclop", OidList),
        ("conbin", Text),
    ],
    rows: |database| database.facts().with_key().map(key_row).collect(),
};

fn key_row(relation: &Relation) -> Row {
    row![
        relation.constraint_oid,
        relation.key_name(),
        relation.schema_oid(),
        "p",
        false,
        false,
        true,
        relation.oid,
        0,
        relation.index_oid,
        0,
        0,
        " ",
        " ",
        " ",
        true,
        0,
        true,
        Cell::Ints(relation.key.clone()),
    ]
}

/// `pg_get_constraintdef` of a primary key.
pub fn constraint_definition(relation: &Relation) -> String {
    format!("PRIMARY KEY ({})", key_list(relation))
}

/// `pg_get_indexdef` of the index of a primary key.
pub fn index_definition(relation: &Relation) -> String {
    format!(
        "CREATE UNIQUE INDEX {} ON {}.{} USING btree ({})",
        quoted(&relation.key_name()),
        quoted(&relation.schema),
        quoted(&relation.name),
        key_list(relation)
    )
}

fn key_list(relation: &Relation) -> String {
    relation.key_columns().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

/// A name as SQL writes it: in quotes only where it needs them.
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'$');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The relation that has an index or a constraint of this number.
pub fn owner_of_part(database: &Database, oid: i32) -> Option<&Relation> {
    database.facts().with_key().find(|relation| relation.index_oid == oid || relation.constraint_oid == oid)
}
