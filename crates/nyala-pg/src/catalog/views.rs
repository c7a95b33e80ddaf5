//! `pg_rewrite` and `pg_depend`: the rewrite rule that PostgreSQL has for each view, and the relations that the view reads.

use super::cells::{Kind, Row, row};
use super::database::Relation;
use super::oids::{PG_CLASS, PG_REWRITE};
use super::tables::Definition;

use Kind::{Bool, Char, Int4, Oid, Text};

pub const REWRITE: Definition = Definition {
    name: "pg_rewrite",
    columns: &[
        ("oid", Oid),
        ("rulename", Text),
        ("ev_class", Oid),
        ("ev_type", Char),
        ("ev_enabled", Char),
        ("is_instead", Bool),
        ("ev_qual", Text),
        ("ev_action", Text),
    ],
    rows: |database| {
        let views = database.facts().users().filter(|relation| relation.query.is_some());
        views.map(|view| row![view.rule_oid, "_RETURN", view.oid, "1", "O", true, "<>"]).collect()
    },
};

pub const DEPEND: Definition = Definition {
    name: "pg_depend",
    columns: &[
        ("classid", Oid),
        ("objid", Oid),
        ("objsubid", Int4),
        ("refclassid", Oid),
        ("refobjid", Oid),
        ("refobjsubid", Int4),
        ("deptype", Char),
    ],
    rows: |database| {
        let views = database.facts().users().filter(|relation| relation.query.is_some());
        views.flat_map(dependencies).collect()
    },
};

/// The rule depends on its view, and on the relations that the view reads.
fn dependencies(view: &Relation) -> Vec<Row> {
    let on =
        |relation: i32, kind: &'static str| row![PG_REWRITE, view.rule_oid, 0, PG_CLASS, relation, 0, kind];
    std::iter::once(on(view.oid, "i")).chain(view.reads.iter().map(|read| on(*read, "n"))).collect()
}
