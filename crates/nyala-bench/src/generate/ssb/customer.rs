//! The dimension `customer`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use tpchgen::distribution::Distributions;

use super::geography::{Home, random_home};
use super::random::{Purpose, Random};
use super::text::{number, random_address, schema_of, strings, text};

struct Customer {
    key: i32,
    name: String,
    address: String,
    home: Home,
    market_segment: &'static str,
}

/// The 8 columns, in the paper's order.
pub fn schema() -> SchemaRef {
    schema_of(vec![
        number("c_custkey"),
        text("c_name"),
        text("c_address"),
        text("c_city"),
        text("c_nation"),
        text("c_region"),
        text("c_phone"),
        text("c_mktsegment"),
    ])
}

/// The customers at these places, counted from 0; keys count from 1.
pub fn batch(places: Range<u64>) -> anyhow::Result<RecordBatch> {
    let segments = Distributions::static_default().market_segments().get_values();
    let rows: Vec<Customer> = places.map(|place| customer(place + 1, segments)).collect();
    let columns = vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.key))),
        strings(&rows, |row| &row.name),
        strings(&rows, |row| &row.address),
        strings(&rows, |row| &row.home.city),
        strings(&rows, |row| row.home.nation),
        strings(&rows, |row| row.home.region),
        strings(&rows, |row| &row.home.phone),
        strings(&rows, |row| row.market_segment),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn customer(key: u64, segments: &[&'static str]) -> Customer {
    let random = &mut Random::new(Purpose::Customer, key);
    Customer {
        key: key as i32,
        name: format!("Customer#{key:09}"),
        address: random_address(random),
        home: random_home(random),
        market_segment: random.pick(segments),
    }
}
