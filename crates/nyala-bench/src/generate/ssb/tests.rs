//! Properties of the tables as a whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};

use super::lineorder::Orders;
use super::part::retail_price;
use super::sizes::Sizes;
use super::{TABLES, calendar, customer, dates, part, plan, supplier};

#[test]
fn tables_have_the_sizes_of_their_scale() {
    let check = |scale, dimensions: [usize; 4]| {
        let rows: Vec<usize> = TABLES.iter().map(|table| rows_of(table, scale)).collect();
        assert_eq!(rows[1..], dimensions, "scale {scale}");
        let lines_per_order = rows[0] as f64 / Sizes::at(scale).unwrap().orders as f64;
        assert!((3.8..4.2).contains(&lines_per_order), "scale {scale}: {lines_per_order}");
    };
    check(0.001, [30, 2, 200, 2_557]);
    check(0.01, [300, 20, 2_000, 2_557]);
}

#[test]
fn rows_do_not_depend_on_how_they_are_cut() {
    let orders = Orders::new(Sizes::at(0.01).unwrap());
    let check = |batch: &dyn Fn(Range<u64>) -> anyhow::Result<RecordBatch>| {
        let whole = batch(0..1_000).unwrap();
        for step in [1, 7, 999] {
            let pieces: Vec<_> = crate::generate::plan::steps(0..1_000, step).map(batch).collect();
            let pieces: Vec<_> = pieces.into_iter().map(Result::unwrap).collect();
            assert_eq!(concat_batches(&whole.schema(), &pieces).unwrap(), whole, "step {step}");
        }
    };
    check(&|places| orders.batch(places));
    check(&customer::batch);
    check(&supplier::batch);
    check(&part::batch);
    check(&dates::batch);
}

#[test]
fn the_first_rows_stay_what_they_were() {
    // A change here changes every data set that was ever generated: say so in the reference.
    let orders = Orders::new(Sizes::at(1.0).unwrap());
    let batch = orders.batch(0..1_000).unwrap();
    let checksum = |column| ints(&batch, column).iter().map(|value| i64::from(*value)).sum::<i64>();
    let found = (batch.num_rows(), checksum("lo_revenue"), checksum("lo_commitdate"));
    assert_eq!(found, (4_077, 14_671_028_442, 81_336_643_366));
}

#[test]
fn every_key_exists_and_every_value_is_in_its_range() {
    let sizes = Sizes::at(0.01).unwrap();
    let batch = Orders::new(sizes).batch(0..sizes.orders).unwrap();
    let check = |column: &str, low: i32, high: i32| {
        let values = ints(&batch, column);
        let (least, greatest) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        assert_eq!((*least, *greatest), (low, high), "{column}");
    };
    check("lo_linenumber", 1, 7);
    check("lo_custkey", 1, sizes.customers as i32 - 1); // 300 is a multiple of three
    check("lo_partkey", 1, sizes.parts as i32);
    check("lo_suppkey", 1, sizes.suppliers as i32);
    check("lo_orderdate", 19920101, 19980802);
    check("lo_quantity", 1, 50);
    check("lo_discount", 0, 10);
    check("lo_tax", 0, 8);
    assert!(ints(&batch, "lo_custkey").iter().all(|key| key % 3 != 0));
    let days: BTreeSet<i32> = calendar::keys().into_iter().collect();
    for column in ["lo_orderdate", "lo_commitdate"] {
        assert!(ints(&batch, column).iter().all(|key| days.contains(key)), "{column}");
    }
    assert!(batch.columns().iter().all(|column| column.null_count() == 0));
}

#[test]
fn order_keys_rise_and_line_numbers_count_from_one() {
    let batch = Orders::new(Sizes::at(0.01).unwrap()).batch(0..2_000).unwrap();
    let keys = batch["lo_orderkey"].as_primitive::<Int64Type>().values();
    let lines = ints(&batch, "lo_linenumber");
    for row in 1..batch.num_rows() {
        let same_order = keys[row] == keys[row - 1];
        assert!(keys[row] >= keys[row - 1]);
        assert_eq!(lines[row], if same_order { lines[row - 1] + 1 } else { 1 }, "row {row}");
    }
}

#[test]
fn money_follows_its_formulas() {
    let batch = Orders::new(Sizes::at(0.01).unwrap()).batch(0..2_000).unwrap();
    let column = |name| ints(&batch, name);
    let (parts, quantities, discounts) = (column("lo_partkey"), column("lo_quantity"), column("lo_discount"));
    let (extended, revenues, taxes) = (column("lo_extendedprice"), column("lo_revenue"), column("lo_tax"));
    let (costs, totals) = (column("lo_supplycost"), column("lo_ordtotalprice"));
    let keys = batch["lo_orderkey"].as_primitive::<Int64Type>().values();
    let mut charges: HashMap<i64, i64> = HashMap::new();
    for row in 0..batch.num_rows() {
        assert_eq!(extended[row], quantities[row] * retail_price(parts[row]));
        assert_eq!(revenues[row], (i64::from(extended[row]) * i64::from(100 - discounts[row]) / 100) as i32);
        assert_eq!(costs[row], retail_price(parts[row]) * 6 / 10);
        *charges.entry(keys[row]).or_default() +=
            i64::from(revenues[row]) * i64::from(100 + taxes[row]) / 100;
    }
    for row in 0..batch.num_rows() {
        assert_eq!(i64::from(totals[row]), charges[&keys[row]], "order {}", keys[row]);
    }
}

#[test]
fn brands_belong_to_categories_and_these_to_manufacturers() {
    let batch = part::batch(0..20_000).unwrap();
    let column = |name: &str| texts(&batch, name);
    let (makers, categories, brands) = (column("p_mfgr"), column("p_category"), column("p_brand1"));
    let (names, colors) = (column("p_name"), column("p_color"));
    for row in 0..batch.num_rows() {
        assert!(categories[row].starts_with(makers[row]) && categories[row].len() == 7);
        assert!(brands[row].starts_with(categories[row]));
        let number: u32 = brands[row][7..].parse().unwrap();
        assert!((1..=40).contains(&number), "{}", brands[row]);
        assert!(names[row].starts_with(colors[row]));
    }
    let distinct = |values: Vec<&str>| values.into_iter().collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(makers), distinct(categories), distinct(brands)), (5, 25, 1_000));
}

#[test]
fn days_are_described_right() {
    let batch = dates::batch(0..calendar::DAYS.into()).unwrap();
    let check = |key: i32, numbers: [i32; 6], flags: [i32; 4], words: [&str; 5]| {
        let row = ints(&batch, "d_datekey").iter().position(|day| *day == key).unwrap();
        let number = |name| ints(&batch, name)[row];
        let names = [
            "d_yearmonthnum",
            "d_daynuminweek",
            "d_daynuminmonth",
            "d_daynuminyear",
            "d_monthnuminyear",
            "d_weeknuminyear",
        ];
        assert_eq!(names.map(number), numbers, "{key}");
        let names = ["d_lastdayinweekfl", "d_lastdayinmonthfl", "d_holidayfl", "d_weekdayfl"];
        assert_eq!(names.map(number), flags, "{key}");
        let names = ["d_date", "d_dayofweek", "d_month", "d_yearmonth", "d_sellingseason"];
        assert_eq!(names.map(|name| texts(&batch, name)[row]), words, "{key}");
    };
    check(
        19920101,
        [199201, 4, 1, 1, 1, 1],
        [0, 0, 1, 1],
        ["January 1, 1992", "Wednesday", "January", "Jan1992", "Winter"],
    );
    check(
        19940205,
        [199402, 7, 5, 36, 2, 6],
        [1, 0, 0, 0],
        ["February 5, 1994", "Saturday", "February", "Feb1994", "Winter"],
    );
    check(
        19971231,
        [199712, 4, 31, 365, 12, 53],
        [0, 1, 0, 1],
        ["December 31, 1997", "Wednesday", "December", "Dec1997", "Christmas"],
    );
    assert_eq!(texts(&batch, "d_month").into_iter().collect::<BTreeSet<_>>().len(), 12);
}

fn rows_of(table: &str, scale: f64) -> usize {
    let plan = plan(scale).unwrap().into_iter().find(|plan| plan.name == table).unwrap();
    plan.parts
        .into_iter()
        .flat_map(|part| (part.open)().unwrap())
        .map(|batch| batch.unwrap().num_rows())
        .sum()
}

fn ints<'a>(batch: &'a RecordBatch, column: &str) -> &'a [i32] {
    batch[column].as_primitive::<Int32Type>().values()
}

fn texts<'a>(batch: &'a RecordBatch, column: &str) -> Vec<&'a str> {
    batch[column].as_string::<i32>().iter().map(Option::unwrap).collect()
}
