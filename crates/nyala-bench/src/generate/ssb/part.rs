//! The dimension `part`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use tpchgen::distribution::Distributions;

use super::random::{Purpose, Random};
use super::text::{number, schema_of, strings, text};

struct Part {
    key: i32,
    name: String,
    manufacturer: String,
    category: String,
    brand: String,
    color: &'static str,
    kind: &'static str,
    size: i32,
    container: &'static str,
}

/// The 9 columns, in the paper's order.
pub fn schema() -> SchemaRef {
    schema_of(vec![
        number("p_partkey"),
        text("p_name"),
        text("p_mfgr"),
        text("p_category"),
        text("p_brand1"),
        text("p_color"),
        text("p_type"),
        number("p_size"),
        text("p_container"),
    ])
}

/// The parts at these places, counted from 0; keys count from 1.
pub fn batch(places: Range<u64>) -> anyhow::Result<RecordBatch> {
    let words = Distributions::static_default();
    let rows: Vec<Part> = places.map(|place| part(place + 1, words)).collect();
    let columns = vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.key))),
        strings(&rows, |row| &row.name),
        strings(&rows, |row| &row.manufacturer),
        strings(&rows, |row| &row.category),
        strings(&rows, |row| &row.brand),
        strings(&rows, |row| row.color),
        strings(&rows, |row| row.kind),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.size))),
        strings(&rows, |row| row.container),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn part(key: u64, words: &'static Distributions) -> Part {
    let random = &mut Random::new(Purpose::Part, key);
    let colors = words.part_colors().get_values();
    let (color, second_color) = (random.pick(colors), random.pick(colors));
    let manufacturer = format!("MFGR#{}", random.between(1, 5));
    let category = format!("{manufacturer}{}", random.between(1, 5));
    let brand = format!("{category}{}", random.between(1, 40));
    Part {
        key: key as i32,
        name: format!("{color} {second_color}"),
        manufacturer,
        category,
        brand,
        color,
        kind: random.pick(words.part_types().get_values()),
        size: random.between(1, 50),
        container: random.pick(words.part_containers().get_values()),
    }
}

/// Price of one piece in cents, 90,000 to 209,900 (TPC-H 4.2.3, `P_RETAILPRICE`). It is no column of
/// SSB, but every money column of `lineorder` follows from it.
pub fn retail_price(key: i32) -> i32 {
    90_000 + (key / 10) % 20_001 + 100 * (key % 1_000)
}
