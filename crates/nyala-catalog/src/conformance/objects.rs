//! Schemas, tables and cubes.

use std::collections::BTreeSet;

use nyala_model::{DimensionSet, FileFormat};

use super::fixtures::*;
use crate::{CatalogError, Change};

pub async fn a_new_catalog_holds_the_default_schema(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let snapshot = subject.catalog.snapshot();
    assert_eq!(snapshot.schemas, BTreeSet::from(["public".to_owned()]));
    assert!(snapshot.tables.is_empty() && snapshot.cubes.is_empty());
    subject
        .refuse(drop_schema("public", true), "schema `public` always exists; drop what it holds instead")
        .await;
}

pub async fn tables_and_cubes_come_and_go(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("shop.sales")).await;
    subject.make(create_cube("shop.revenue", &["shop.sales"])).await;
    let full = Subject::open(backend).await.catalog.snapshot();
    assert_eq!(full.tables[&name("shop.sales")].external(), Some(&files("shop.sales")));
    assert_eq!(full.cubes[&name("shop.revenue")].definition, definition(&["shop.sales"]));
    subject.make(drop_cube("shop.revenue")).await;
    subject.make(drop_table("shop.sales")).await;
    subject.make(drop_schema("shop", false)).await;
    let empty = Subject::open(backend).await.catalog.snapshot();
    assert!(empty.tables.is_empty() && empty.cubes.is_empty() && empty.schemas.len() == 1);
}

pub async fn entries_come_back_as_they_were(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let mut table = new_table("odd \"name\" with 'quotes', ünïcode 🦌 and\nlines; DROP TABLE tables");
    let mut source = files("sales");
    source.options.insert("{json}".to_owned(), "\\ \u{1} \"".to_owned());
    for format in [FileFormat::Csv, FileFormat::Delta, FileFormat::NdJson, FileFormat::Parquet] {
        source.format = format;
        table.source = nyala_model::TableSource::External(source.clone());
        table.name.name.push('.');
        table.schema_ipc.clear();
        subject.make(Change::CreateTable { table: table.clone(), if_not_exists: false }).await;
    }
    let mut wide = definition(&[]);
    wide.grouping_sets = vec![DimensionSet::from_bits(u64::MAX), DimensionSet::from_bits(1 << 63)];
    let cube = Change::CreateCube {
        name: name("wide"),
        definition: wide,
        statement: String::new(),
        if_not_exists: false,
    };
    subject.make(cube).await;
    let segment = subject.begin("wide").await;
    subject.make(Change::AddCuboid { segment, cuboid: cuboid(u64::MAX, u64::MAX / 8) }).await;
    subject
        .make(Change::PublishSegment {
            segment,
            source_rows: u64::MAX,
            built_at_ms: u64::MAX,
            droppable_joins: vec![],
            key_bounds: None,
        })
        .await;
    assert_eq!(*Subject::open(backend).await.catalog.snapshot(), *subject.catalog.snapshot());
}

pub async fn existing_names_are_refused_or_forgiven(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    for (what, called, change) in [
        ("schema", "shop", create_schema("shop")),
        ("table", "public.sales", create_table("sales")),
        ("cube", "public.revenue", create_cube("revenue", &["sales"])),
    ] {
        subject.make(lenient(change.clone())).await;
        subject.forgive(lenient(change.clone())).await;
        let message = format!("{what} `{called}` already exists; choose another name or drop it first");
        subject.refuse(change, &message).await;
    }
}

pub async fn missing_names_are_refused_or_forgiven(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("sales")).await;
    subject.make(create_table("shop.stock")).await;
    subject.make(create_cube("revenue", &["sales"])).await;
    for (change, message) in [
        (drop_schema("shopp", true), "schema `shopp` does not exist; did you mean `shop`?"),
        (drop_schema("elsewhere", true), "schema `elsewhere` does not exist; create it with CREATE SCHEMA"),
        (drop_table("slaes"), "table `public.slaes` does not exist; did you mean `public.sales`?"),
        (drop_table("stock"), "table `public.stock` does not exist; did you mean `shop.stock`?"),
        (drop_table("zebra"), "table `public.zebra` does not exist; SHOW TABLES lists what does"),
        (drop_cube("revenu"), "cube `public.revenu` does not exist; did you mean `public.revenue`?"),
        (drop_cube("zebra"), "cube `public.zebra` does not exist; SHOW CUBES lists what does"),
    ] {
        subject.refuse(change.clone(), message).await;
        subject.forgive(lenient(change)).await;
    }
    let no_schema = "schema `shopp` does not exist; did you mean `shop`?";
    subject.refuse(lenient(create_table("shopp.t")), no_schema).await;
    subject.refuse(lenient(create_cube("shopp.c", &["sales"])), no_schema).await;
    let no_source = "table `public.sale` does not exist; did you mean `public.sales`?";
    subject.refuse(create_cube("c", &["sales", "sale"]), no_source).await;
}

pub async fn tables_and_cubes_share_one_namespace(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_cube("revenue", &["sales"])).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("shop.revenue")).await;
    for (change, message) in [
        (
            create_table("revenue"),
            "cube `public.revenue` already exists; choose another name or drop it first",
        ),
        (
            create_cube("sales", &[]),
            "table `public.sales` already exists; choose another name or drop it first",
        ),
        (drop_table("revenue"), "`public.revenue` is a cube, not a table; use the statement for a cube"),
        (drop_cube("sales"), "`public.sales` is a table, not a cube; use the statement for a table"),
    ] {
        subject.refuse(change.clone(), message).await;
        subject.refuse(lenient(change), message).await;
    }
}

pub async fn what_is_needed_cannot_be_dropped(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("shop.sales")).await;
    subject.make(create_cube("a", &["shop.sales"])).await;
    subject.make(create_cube("shop.b", &["shop.sales"])).await;
    let by_cubes = "table `shop.sales` is needed by cube `public.a`, cube `shop.b`; drop that first";
    subject.refuse(lenient(drop_table("shop.sales")), by_cubes).await;
    let by_contents =
        "schema `shop` is needed by table `shop.sales`, cube `shop.b`; drop that first or add CASCADE";
    subject.refuse(drop_schema("shop", false), by_contents).await;
    for cube in ["c", "d", "e", "f", "g"] {
        subject.make(create_cube(cube, &["shop.sales"])).await;
    }
    let error = subject.commit(drop_table("shop.sales")).await.unwrap_err();
    assert!(
        matches!(&error, CatalogError::InUse { by, .. } if by.ends_with("cube `public.f` and 2 more")),
        "{error}"
    );
}

pub async fn a_cascade_spares_cubes_of_other_schemas(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_schema("shop")).await;
    subject.make(create_table("shop.sales")).await;
    subject.make(create_cube("shop.inner", &["shop.sales"])).await;
    subject.begin("shop.inner").await;
    subject.make(create_cube("outer", &["shop.sales"])).await;
    let needed = "table `shop.sales` is needed by cube `public.outer`; drop that first";
    subject.refuse(drop_schema("shop", true), needed).await;
    subject.make(drop_cube("outer")).await;
    let empty = subject.make(drop_schema("shop", true)).await.snapshot;
    assert!(empty.tables.is_empty() && empty.cubes.is_empty() && !empty.schemas.contains("shop"));
}

pub async fn ids_are_never_given_twice(backend: &dyn Backend) {
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let subject = Subject::open(backend).await;
        subject.make(create_table("sales")).await;
        subject.make(create_cube("revenue", &["sales"])).await;
        let segment = subject.begin("revenue").await;
        let table = subject.catalog.snapshot().tables[&name("sales")].id;
        assert!(seen.insert((table.0, subject.cube("revenue").id.0, segment.0)));
        subject.make(drop_cube("revenue")).await;
        subject.make(drop_table("sales")).await;
    }
    let (tables, rest): (BTreeSet<_>, Vec<_>) = seen.iter().map(|ids| (ids.0, (ids.1, ids.2))).unzip();
    let (cubes, segments): (BTreeSet<_>, BTreeSet<_>) = rest.into_iter().unzip();
    assert_eq!((tables.len(), cubes.len(), segments.len()), (3, 3, 3));
}
