//! Disk stores and the tables that live in them.

use std::collections::BTreeMap;

use nyala_model::{NodeId, TableId};

use super::fixtures::*;
use crate::{Change, NewTable};

pub async fn stores_and_live_tables_come_and_go(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_store("main")).await;
    subject
        .refuse(
            create_store("main"),
            "disk store `main` already exists; choose another name or drop it first",
        )
        .await;
    subject.forgive(lenient(create_store("main"))).await;
    subject.make(create_live_table("people", "main")).await;
    let other = create_live_table("places", "mian");
    subject.refuse(other, "disk store `mian` does not exist; did you mean `main`?").await;
    let full = Subject::open(backend).await.catalog.snapshot();
    let live = full.tables[&name("people")].live().unwrap();
    assert_eq!((live.store.as_str(), live.key.len()), ("main", 2));
    subject.make(drop_table("people")).await;
    subject.make(drop_store("main")).await;
    subject
        .refuse(
            drop_store("main"),
            "disk store `main` does not exist; the table `system.disk_stores` lists what does",
        )
        .await;
    subject.forgive(lenient(drop_store("main"))).await;
    assert!(Subject::open(backend).await.catalog.snapshot().disk_stores.is_empty());
}

pub async fn a_store_is_not_dropped_under_its_tables(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_store("main")).await;
    subject.make(create_live_table("people", "main")).await;
    let refusal = "disk store `main` is needed by table `public.people`";
    let refused = subject.commit(drop_store("main")).await.unwrap_err().to_string();
    assert!(refused.starts_with(refusal), "{refused}");
    let mut twin = create_store("twin");
    if let Change::CreateDiskStore { store, .. } = &mut twin {
        store.folder = "stores/main".to_owned();
    }
    let refused = subject.commit(twin.clone()).await.unwrap_err().to_string();
    assert!(refused.starts_with("folder `stores/main` is needed by disk store `main`"), "{refused}");
    // On another machine the same path is another folder.
    if let Change::CreateDiskStore { store, .. } = &mut twin {
        store.node = NodeId("there".to_owned());
    }
    subject.make(twin).await;
}

pub async fn a_dropped_table_is_left_over_until_it_is_gone(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let leftovers = || {
        let stores = &subject.catalog.snapshot().disk_stores;
        stores["main"].leftovers.iter().cloned().collect::<Vec<_>>()
    };
    subject.make(create_schema("shop")).await;
    subject.make(create_store("main")).await;
    subject.make(create_live_table("people", "main")).await;
    subject.make(create_live_table("shop.goods", "main")).await;
    subject.make(create_live_table("shop.sales", "main")).await;
    subject.make(drop_table("people")).await;
    assert_eq!(leftovers(), ["people-1"]);
    subject.make(drop_schema("shop", true)).await;
    assert_eq!(leftovers(), ["people-1", "shop.goods-1", "shop.sales-1"]);
    let forget = Change::ForgetLeftover { store: "main".to_owned(), stored_as: "people-1".to_owned() };
    subject.make(forget.clone()).await;
    subject.forgive(forget).await;
    assert_eq!(leftovers(), ["shop.goods-1", "shop.sales-1"]);
    // The name of an existing table is no leftover: its rows must not be removed.
    subject.make(create_schema("shop")).await;
    subject.make(create_live_table("shop.goods", "main")).await;
    assert_eq!(leftovers(), ["shop.sales-1"]);
}

pub async fn a_live_table_gets_other_columns(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_store("main")).await;
    subject.make(create_live_table("people", "main")).await;
    subject.make(create_table("files")).await;
    let id = |table: &str| subject.catalog.snapshot().tables[&name(table)].id;
    let alter = |table: TableId| Change::AlterTable {
        table,
        schema_ipc: vec![1, 2, 3],
        defaults: BTreeMap::from([("number".to_owned(), "7 + 1".to_owned())]),
        definition: "CREATE TABLE people (…)".to_owned(),
    };
    subject.make(alter(id("people"))).await;
    subject.forgive(alter(id("people"))).await;
    let entry = subject.catalog.snapshot().tables[&name("people")].clone();
    assert_eq!((entry.schema_ipc.as_slice(), entry.definition.len()), ([1, 2, 3].as_slice(), 25));
    // The new defaults replace the old ones.
    assert_eq!(entry.live().unwrap().defaults.keys().collect::<Vec<_>>(), ["number"]);
    let NewTable { source, .. } = new_table("files");
    assert!(subject.commit(alter(id("files"))).await.is_err());
    assert_eq!(subject.catalog.snapshot().tables[&name("files")].source, source);
}
