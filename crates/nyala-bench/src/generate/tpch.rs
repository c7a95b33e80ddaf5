//! TPC-H data, from the crate `tpchgen`: byte for byte the same as that of `dbgen`.

use anyhow::ensure;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RecordBatchIterator,
    RegionArrow, SupplierArrow,
};

use super::plan::{Part, TablePlan, cut};

/// The tables, the largest first.
pub const TABLES: [&str; 8] =
    ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"];

/// Below this there are too few customers and suppliers to draw from.
const SMALLEST_SCALE: f64 = 0.001;
/// The largest scale the specification knows.
const MAX_SCALE: f64 = 100_000.0;

/// The tables of a scale, in the order of [`TABLES`]. The scale must be 0.001 to 100,000.
pub fn plan(scale: f64) -> anyhow::Result<Vec<TablePlan>> {
    ensure!(
        (SMALLEST_SCALE..=MAX_SCALE).contains(&scale),
        "scale of `tpch` must be between {SMALLEST_SCALE} and {MAX_SCALE}, but is `{scale}`"
    );
    let rows = |at_one: f64| (at_one * scale) as u64;
    let orders = rows(1_500_000.0);
    Ok(vec![
        table("lineitem", orders, 4, move |part, parts| {
            LineItemArrow::new(LineItemGenerator::new(scale, part, parts))
        }),
        table("orders", orders, 1, move |part, parts| {
            OrderArrow::new(OrderGenerator::new(scale, part, parts))
        }),
        table("partsupp", rows(200_000.0), 4, move |part, parts| {
            PartSuppArrow::new(PartSuppGenerator::new(scale, part, parts))
        }),
        table("part", rows(200_000.0), 1, move |part, parts| {
            PartArrow::new(PartGenerator::new(scale, part, parts))
        }),
        table("customer", rows(150_000.0), 1, move |part, parts| {
            CustomerArrow::new(CustomerGenerator::new(scale, part, parts))
        }),
        table("supplier", rows(10_000.0), 1, move |part, parts| {
            SupplierArrow::new(SupplierGenerator::new(scale, part, parts))
        }),
        table("nation", 25, 1, move |part, parts| NationArrow::new(NationGenerator::new(scale, part, parts))),
        table("region", 5, 1, move |part, parts| RegionArrow::new(RegionGenerator::new(scale, part, parts))),
    ])
}

/// A table in parts: `open(i, n)` starts part `i` of `n`, counted from 1.
fn table<B: RecordBatchIterator + 'static>(
    name: &'static str,
    units: u64,
    unit_rows: u64,
    open: impl Fn(i32, i32) -> B + Clone + Send + 'static,
) -> TablePlan {
    let schema = open(1, 1).schema().clone();
    let ranges = cut(units, unit_rows);
    let count = ranges.len() as i32;
    let part = |(number, range): (i32, std::ops::Range<u64>)| {
        let open = open.clone();
        Part {
            expected_rows: (range.end - range.start) * unit_rows,
            open: Box::new(move || Ok(Box::new(open(number, count).map(Ok)))),
        }
    };
    TablePlan { name, schema, parts: (1..).zip(ranges).map(part).collect() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::RecordBatch;
    use arrow::compute::concat_batches;
    use arrow::datatypes::DataType;

    #[test]
    fn tables_have_their_rows() {
        let rows: Vec<(&str, usize)> = plan(0.001)
            .unwrap()
            .into_iter()
            .map(|table| {
                let batches = table.parts.into_iter().flat_map(|part| (part.open)().unwrap());
                (table.name, batches.map(|batch| batch.unwrap().num_rows()).sum())
            })
            .collect();
        assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), TABLES);
        let dimensions: Vec<usize> = rows.iter().skip(1).map(|(_, rows)| *rows).collect();
        assert_eq!(dimensions, [1_500, 800, 200, 150, 10, 25, 5]);
    }

    #[test]
    fn parts_join_without_a_seam() {
        let lines = |part, parts| -> Vec<RecordBatch> {
            LineItemArrow::new(LineItemGenerator::new(0.001, part, parts)).collect()
        };
        let whole = lines(1, 1);
        let schema = whole.first().unwrap().schema();
        let parts: Vec<RecordBatch> = (1..=3).flat_map(|part| lines(part, 3)).collect();
        assert_eq!(concat_batches(&schema, &parts).unwrap(), concat_batches(&schema, &whole).unwrap());
    }

    #[test]
    fn money_is_decimal_and_nothing_is_nullable() {
        let plan = plan(0.001).unwrap();
        let lineitem = &plan.first().unwrap().schema;
        let price = lineitem.field_with_name("l_extendedprice").unwrap();
        assert_eq!(price.data_type(), &DataType::Decimal128(15, 2));
        assert!(plan.iter().flat_map(|table| table.schema.fields().iter()).all(|field| !field.is_nullable()));
    }

    #[test]
    fn scales_out_of_range_are_refused() {
        for scale in [0.0, -1.0, 0.0001, 1e6, f64::NAN] {
            assert!(plan(scale).is_err_and(|error| error.to_string().contains("must be between")));
        }
    }
}
