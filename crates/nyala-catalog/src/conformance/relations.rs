//! Views, and names that change.

use std::sync::Arc;

use nyala_model::TableEntry;
use nyala_model::access::Privilege;

use super::fixtures::*;
use super::roles::{create_role, names, privileges};
use crate::{Change, NewTable};

fn table(subject: &Subject, table: &str) -> Arc<TableEntry> {
    Arc::clone(&subject.catalog.snapshot().tables[&name(table)])
}

fn create_view(subject: &Subject, view: &str, reads: &[&str]) -> Change {
    Change::CreateTable { table: view_of(subject, view, reads), if_not_exists: false }
}

fn view_of(subject: &Subject, view: &str, reads: &[&str]) -> NewTable {
    let reads: Vec<Arc<TableEntry>> = reads.iter().map(|read| table(subject, read)).collect();
    new_view(view, &reads.iter().collect::<Vec<_>>())
}

pub async fn views_come_and_go_with_their_tables(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_view(&subject, "a", &["sales"])).await;
    subject.make(create_view(&subject, "b", &["a"])).await;
    let stored = Subject::open(backend).await.catalog.snapshot();
    assert_eq!(stored.tables[&name("b")].view().unwrap().reads[0].0, name("a"));
    for (change, message) in [
        (
            drop_table("sales"),
            "table `public.sales` is needed by view `public.a`, view `public.b`; drop that first or add CASCADE",
        ),
        (
            drop_tables(&["a"], true, false),
            "view `public.a` is needed by view `public.b`; drop that first or add CASCADE",
        ),
        (drop_table("a"), "`public.a` is a view, not a table; use the statement for a view"),
        (
            drop_tables(&["sales"], true, true),
            "`public.sales` is a table, not a view; use the statement for a table",
        ),
        (
            drop_tables(&["c"], true, false),
            "view `public.c` does not exist; the table `information_schema.views` lists what does",
        ),
    ] {
        subject.refuse(change, message).await;
    }
    subject.forgive(lenient(drop_tables(&["c"], true, false))).await;
    subject.make(drop_tables(&["b", "a"], true, false)).await;
    subject.make(create_view(&subject, "a", &["sales"])).await;
    subject.make(create_view(&subject, "b", &["a"])).await;
    let left = subject.make(drop_tables(&["sales"], false, true)).await.snapshot;
    assert!(left.tables.is_empty());
}

pub async fn a_view_follows_the_tables_it_reads(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_view(&subject, "a", &["sales"])).await;
    let id = table(&subject, "sales").id;
    subject.make(rename("sales", "old")).await;
    subject.make(create_table("sales")).await;
    let stored = Subject::open(backend).await.catalog.snapshot();
    assert_eq!(stored.tables[&name("old")].id, id);
    assert_eq!(stored.tables[&name("a")].view().unwrap().reads, [(name("sales"), id)]);
    subject.make(drop_table("sales")).await;
    subject
        .refuse(
            drop_table("old"),
            "table `public.old` is needed by view `public.a`; drop that first or add CASCADE",
        )
        .await;
}

pub async fn a_view_cannot_read_itself(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_view(&subject, "a", &["sales"])).await;
    subject.make(create_view(&subject, "b", &["a"])).await;
    let id = table(&subject, "a").id;
    let replace = |reads: &[&str]| Change::ReplaceView { view: view_of(&subject, "a", reads) };
    let refusal = "view `public.a` would read itself; leave it out of its query";
    subject.refuse(replace(&["b"]), refusal).await;
    subject.refuse(replace(&["sales", "a"]), refusal).await;
    subject.make(replace(&[])).await;
    assert_eq!(table(&subject, "a").id, id);
    let view = view_of(&subject, "sales", &[]);
    let refusal = "`public.sales` is a table, not a view; use the statement for a table";
    subject.refuse(Change::ReplaceView { view }, refusal).await;
}

pub async fn a_name_changes_with_its_grants(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_role("ann")).await;
    let granted = |table| privileges(&[(Privilege::Select, table)]);
    subject.make(Change::Grant { what: granted("sales"), to: names(&["ann"]) }).await;
    subject.make(rename("sales", "sold")).await;
    subject.forgive(Change::Grant { what: granted("sold"), to: names(&["ann"]) }).await;
    subject.make(create_table("sales")).await;
    subject.make(Change::Grant { what: granted("sales"), to: names(&["ann"]) }).await;
    let taken = "table `public.sold` already exists; choose another name or drop it first";
    subject.refuse(rename("sales", "sold"), taken).await;
    subject
        .refuse(rename("sale", "x"), "table `public.sale` does not exist; did you mean `public.sales`?")
        .await;
    subject.forgive(lenient(rename("sale", "x"))).await;
    subject.make(create_cube("revenue", &["sales"])).await;
    let used = "table `public.sales` is needed by cube `public.revenue`; drop that first";
    subject.refuse(rename("sales", "x"), used).await;
}
