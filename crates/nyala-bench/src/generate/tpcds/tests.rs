//! Properties of the tables as a whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::HashSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use tpcdsgen::config::{SessionBuilder, Table};

use super::lines::Lines;
use super::{TABLES, layout, plan, rows};
use crate::generate::plan::steps;

#[test]
fn every_table_has_the_columns_of_the_specification() {
    let counts = [23, 20, 34, 27, 34, 24, 4, 31, 9, 18, 13, 9, 28, 5, 3, 22, 19, 3, 6, 29, 10, 14, 14, 26];
    for (table, count) in TABLES.iter().zip(counts) {
        let schema = layout::schema(table).unwrap();
        assert_eq!(schema.fields().len(), count, "{table}");
        assert!(schema.fields().iter().any(|field| !field.is_nullable()), "{table} has no key");
    }
    assert!(layout::schema("nothing").is_err());
}

#[test]
fn types_follow_the_specification() {
    let check = |table: &str, column: &str, data_type: DataType, nullable: bool| {
        let schema = layout::schema(table).unwrap();
        let field = schema.field_with_name(column).unwrap();
        assert_eq!((field.data_type(), field.is_nullable()), (&data_type, nullable), "{column}");
    };
    check("store_sales", "ss_item_sk", DataType::Int32, false);
    check("store_sales", "ss_ticket_number", DataType::Int64, false);
    check("store_sales", "ss_net_profit", DataType::Decimal128(7, 2), true);
    check("promotion", "p_cost", DataType::Decimal128(15, 2), true);
    check("customer_address", "ca_gmt_offset", DataType::Decimal128(5, 2), true);
    check("date_dim", "d_date", DataType::Date32, true);
    check("item", "i_item_id", DataType::Utf8, false);
}

/// Reading every row of every table also proves that each value fits its column.
#[test]
fn every_table_can_be_read() {
    let all: Vec<(&str, usize)> = TABLES.iter().map(|table| (*table, read(table, 0.01).num_rows())).collect();
    let rows = |table| all.iter().find(|(name, _)| *name == table).unwrap().1;
    assert!(all.iter().all(|(_, rows)| *rows > 0), "{all:?}");
    assert_eq!(rows("date_dim"), 73_049);
    assert_eq!(rows("time_dim"), 86_400);
    assert_eq!(rows("income_band"), 20);
    // Below scale 1 the generator knows sales only in steps of 10,000 orders, 12 items each.
    assert!((110_000..130_000).contains(&rows("store_sales")), "{all:?}");
    assert!((11_000..13_000).contains(&rows("store_returns")), "{all:?}");
}

#[test]
fn rows_do_not_depend_on_how_they_are_cut() {
    let session = SessionBuilder::new().with_scale_factor(0.01).build().unwrap();
    for table in [Table::StoreSales, Table::CatalogSales, Table::WebReturns, Table::Item, Table::Inventory] {
        let schema = layout::schema(table.get_name()).unwrap();
        let lines = |range| {
            let batches = Lines::new(rows::open(table, session.clone(), range), schema.clone(), false);
            let batches: Vec<_> = batches.map(Result::unwrap).collect();
            concat_batches(&schema, &batches).unwrap()
        };
        let pieces: Vec<RecordBatch> = steps(0..120, 37).map(lines).collect();
        assert_eq!(concat_batches(&schema, &pieces).unwrap(), lines(0..120), "{table:?}");
    }
}

#[test]
fn keys_exist_where_they_point() {
    let items = keys("item", "i_item_sk");
    let sales = read("store_sales", 0.01);
    let returns = read("store_returns", 0.01);
    assert!(ints(&sales, "ss_item_sk").iter().flatten().all(|key| items.contains(&key)));
    let customers = keys("customer", "c_customer_sk");
    assert!(ints(&sales, "ss_customer_sk").iter().flatten().all(|key| customers.contains(&key)));
    let days = keys("date_dim", "d_date_sk");
    assert!(ints(&sales, "ss_sold_date_sk").iter().flatten().all(|key| days.contains(&key)));
    let sold: HashSet<(i32, i64)> = pairs(&sales, "ss_item_sk", "ss_ticket_number").collect();
    assert!(pairs(&returns, "sr_item_sk", "sr_ticket_number").all(|pair| sold.contains(&pair)));
}

#[test]
fn nulls_are_where_they_may_be() {
    let sales = read("store_sales", 0.01);
    assert!(sales["ss_customer_sk"].null_count() > 0);
    assert_eq!(sales["ss_item_sk"].null_count(), 0);
    let centers = read("call_center", 0.01);
    assert!(centers["cc_name"].as_string::<i32>().iter().flatten().all(|name| name != "NULL"));
}

#[test]
fn a_row_of_the_wrong_shape_is_an_error() {
    let check = |line: &'static str, words: &str| {
        let mut batches =
            Lines::new(Box::new(std::iter::once(line)), layout::schema("income_band").unwrap(), false);
        let message = format!("{:#}", batches.next().unwrap().unwrap_err());
        assert!(message.contains(words), "{message}");
    };
    check("1|2|", "ends before `ib_upper_bound`");
    check("1|2|3|4|", "more than 3 values");
    check("1|x|3|", "`x` is no value of `ib_lower_bound`");
    check("|2|3|", "`` is no value of `ib_income_band_sk`");
}

#[test]
fn scales_out_of_range_are_refused() {
    for scale in [0.0, -1.0, 100_001.0, f64::NAN] {
        assert!(plan(scale).is_err_and(|error| error.to_string().contains("must be above 0")));
    }
}

fn read(table: &str, scale: f64) -> RecordBatch {
    let plan = plan(scale).unwrap().into_iter().find(|plan| plan.name == table).unwrap();
    let batches = plan.parts.into_iter().flat_map(|part| (part.open)().unwrap());
    let batches: Vec<_> = batches.map(Result::unwrap).collect();
    concat_batches(&plan.schema, &batches).unwrap()
}

fn keys(table: &str, column: &str) -> HashSet<i32> {
    ints(&read(table, 0.01), column).iter().flatten().collect()
}

fn ints<'a>(batch: &'a RecordBatch, column: &str) -> &'a arrow::array::Int32Array {
    batch[column].as_primitive::<Int32Type>()
}

fn pairs<'a>(batch: &'a RecordBatch, item: &str, order: &str) -> impl Iterator<Item = (i32, i64)> + 'a {
    let orders = batch[order].as_primitive::<Int64Type>();
    ints(batch, item).values().iter().copied().zip(orders.values().iter().copied())
}
