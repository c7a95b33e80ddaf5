//! The dimension `supplier`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::geography::{Home, random_home};
use super::random::{Purpose, Random};
use super::text::{number, random_address, schema_of, strings, text};

struct Supplier {
    key: i32,
    name: String,
    address: String,
    home: Home,
}

/// The 7 columns, in the paper's order.
pub fn schema() -> SchemaRef {
    schema_of(vec![
        number("s_suppkey"),
        text("s_name"),
        text("s_address"),
        text("s_city"),
        text("s_nation"),
        text("s_region"),
        text("s_phone"),
    ])
}

/// The suppliers at these places, counted from 0; keys count from 1.
pub fn batch(places: Range<u64>) -> anyhow::Result<RecordBatch> {
    let rows: Vec<Supplier> = places.map(|place| supplier(place + 1)).collect();
    let columns = vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.key))),
        strings(&rows, |row| &row.name),
        strings(&rows, |row| &row.address),
        strings(&rows, |row| &row.home.city),
        strings(&rows, |row| row.home.nation),
        strings(&rows, |row| row.home.region),
        strings(&rows, |row| &row.home.phone),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn supplier(key: u64) -> Supplier {
    let random = &mut Random::new(Purpose::Supplier, key);
    Supplier {
        key: key as i32,
        name: format!("Supplier#{key:09}"),
        address: random_address(random),
        home: random_home(random),
    }
}
