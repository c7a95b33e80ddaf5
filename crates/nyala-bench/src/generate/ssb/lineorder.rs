//! The fact table `lineorder`: the lines of all orders, by order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, SchemaRef};
use tpchgen::distribution::Distributions;

use super::calendar::{self, ORDER_DAYS};
use super::part::retail_price;
use super::random::{Purpose, Random};
use super::sizes::Sizes;
use super::text::{number, schema_of, text};

/// The 17 columns, in the paper's order.
pub fn schema() -> SchemaRef {
    schema_of(vec![
        Field::new("lo_orderkey", DataType::Int64, false),
        number("lo_linenumber"),
        number("lo_custkey"),
        number("lo_partkey"),
        number("lo_suppkey"),
        number("lo_orderdate"),
        text("lo_orderpriority"),
        text("lo_shippriority"),
        number("lo_quantity"),
        number("lo_extendedprice"),
        number("lo_ordtotalprice"),
        number("lo_discount"),
        number("lo_revenue"),
        number("lo_supplycost"),
        number("lo_tax"),
        number("lo_commitdate"),
        text("lo_shipmode"),
    ])
}

/// The sizes and lists from which all orders of a scale are drawn.
#[derive(Clone)]
pub struct Orders {
    sizes: Sizes,
    /// Date keys by days since 1992-01-01.
    date_keys: Arc<[i32]>,
    priorities: &'static [&'static str],
    ship_modes: &'static [&'static str],
}

/// The columns that the lines of an order share.
struct Order {
    key: i64,
    customer: i32,
    date: i32,
    priority: &'static str,
}

/// The columns of one line. Money is in cents, `discount` and `tax` in per cent.
#[derive(Clone, Copy)]
struct Line {
    part: i32,
    supplier: i32,
    quantity: i32,
    discount: i32,
    tax: i32,
    commit_date: i32,
    ship_mode: &'static str,
}

impl Line {
    fn extended_price(&self) -> i32 {
        self.quantity * retail_price(self.part)
    }

    fn revenue(&self) -> i32 {
        percent(self.extended_price(), 100 - self.discount)
    }

    fn supply_cost(&self) -> i32 {
        6 * retail_price(self.part) / 10
    }

    /// The customer's price: the revenue and the tax on it.
    fn charge(&self) -> i32 {
        percent(self.revenue(), 100 + self.tax)
    }
}

/// A share of an amount, cut to whole cents. The product may not fit 32 bits.
fn percent(cents: i32, percent: i32) -> i32 {
    (i64::from(cents) * i64::from(percent) / 100) as i32
}

impl Orders {
    /// The orders of a scale.
    pub fn new(sizes: Sizes) -> Self {
        let words = Distributions::static_default();
        Self {
            sizes,
            date_keys: calendar::keys().into(),
            priorities: words.order_priority().get_values(),
            ship_modes: words.ship_modes().get_values(),
        }
    }

    /// The lines of the orders at these places, counted from 0.
    pub fn batch(&self, places: Range<u64>) -> anyhow::Result<RecordBatch> {
        let mut columns = Columns::default();
        let mut lines = Vec::new();
        for place in places {
            let order = self.order(place + 1, &mut lines);
            columns.push(&order, &lines);
        }
        columns.finish()
    }

    /// Order number `number`, counted from 1; its lines replace the contents of `lines`.
    fn order(&self, number: u64, lines: &mut Vec<Line>) -> Order {
        let random = &mut Random::new(Purpose::Order, number);
        let day = random.below(ORDER_DAYS);
        let order = Order {
            key: sparse_key(number),
            customer: self.ordering_customer(random),
            date: self.date_key(day),
            priority: random.pick(self.priorities),
        };
        lines.clear();
        lines.extend((0..random.between(1, 7)).map(|_| self.line(random, day)));
        order
    }

    fn line(&self, random: &mut Random, order_day: u32) -> Line {
        Line {
            part: random.below(self.sizes.parts) as i32 + 1,
            supplier: random.below(self.sizes.suppliers) as i32 + 1,
            quantity: random.between(1, 50),
            discount: random.between(0, 10),
            tax: random.between(0, 8),
            commit_date: self.date_key(order_day + 30 + random.below(61)),
            ship_mode: random.pick(self.ship_modes),
        }
    }

    /// As in TPC-H, customers with a key that is a multiple of three never order.
    fn ordering_customer(&self, random: &mut Random) -> i32 {
        let ordering = self.sizes.customers - self.sizes.customers / 3;
        let place = random.below(ordering);
        (place / 2 * 3 + place % 2 + 1) as i32
    }

    fn date_key(&self, day: u32) -> i32 {
        self.date_keys.get(day as usize).copied().unwrap_or_default()
    }
}

/// The key of an order: of each 32 keys the first 8 are in use (TPC-H 4.2.3, and the paper).
fn sparse_key(number: u64) -> i64 {
    (((number >> 3) << 5) | (number & 7)) as i64
}

/// The columns of a batch while they grow.
#[derive(Default)]
struct Columns {
    order_key: Vec<i64>,
    line_number: Vec<i32>,
    customer: Vec<i32>,
    part: Vec<i32>,
    supplier: Vec<i32>,
    order_date: Vec<i32>,
    priority: StringBuilder,
    quantity: Vec<i32>,
    extended_price: Vec<i32>,
    total_price: Vec<i32>,
    discount: Vec<i32>,
    revenue: Vec<i32>,
    supply_cost: Vec<i32>,
    tax: Vec<i32>,
    commit_date: Vec<i32>,
    ship_mode: StringBuilder,
}

impl Columns {
    fn push(&mut self, order: &Order, lines: &[Line]) {
        let total: i32 = lines.iter().map(Line::charge).sum();
        for (number, line) in (1..).zip(lines) {
            self.order_key.push(order.key);
            self.line_number.push(number);
            self.customer.push(order.customer);
            self.part.push(line.part);
            self.supplier.push(line.supplier);
            self.order_date.push(order.date);
            self.priority.append_value(order.priority);
            self.quantity.push(line.quantity);
            self.extended_price.push(line.extended_price());
            self.total_price.push(total);
            self.discount.push(line.discount);
            self.revenue.push(line.revenue());
            self.supply_cost.push(line.supply_cost());
            self.tax.push(line.tax);
            self.commit_date.push(line.commit_date);
            self.ship_mode.append_value(line.ship_mode);
        }
    }

    fn finish(mut self) -> anyhow::Result<RecordBatch> {
        let rows = self.line_number.len();
        let ship_priority = StringArray::from_iter_values(std::iter::repeat_n("0", rows));
        let numbers = |values: Vec<i32>| Arc::new(Int32Array::from(values));
        Ok(RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(Int64Array::from(self.order_key)),
                numbers(self.line_number),
                numbers(self.customer),
                numbers(self.part),
                numbers(self.supplier),
                numbers(self.order_date),
                Arc::new(self.priority.finish()),
                Arc::new(ship_priority),
                numbers(self.quantity),
                numbers(self.extended_price),
                numbers(self.total_price),
                numbers(self.discount),
                numbers(self.revenue),
                numbers(self.supply_cost),
                numbers(self.tax),
                numbers(self.commit_date),
                Arc::new(self.ship_mode.finish()),
            ],
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_three_of_four_free() {
        let keys: Vec<i64> = [1, 7, 8, 15, 16, 1_500_000].map(sparse_key).into();
        assert_eq!(keys, [1, 7, 32, 39, 64, 6_000_000]);
    }

    #[test]
    fn money_of_the_dearest_line_fits() {
        // Part 999 costs 90,000 + 99 + 99,900 cents; the dearest of all 209,900.
        assert_eq!(retail_price(999), 189_999);
        let line = Line {
            part: 200_000_999,
            supplier: 1,
            quantity: 50,
            discount: 0,
            tax: 8,
            commit_date: 0,
            ship_mode: "AIR",
        };
        assert!(retail_price(line.part) <= 209_900);
        assert_eq!(line.charge(), percent(line.extended_price(), 108));
        assert!(7 * i64::from(line.charge()) < i64::from(i32::MAX));
        assert_eq!(percent(10_495_000, 108), 11_334_600);
    }
}
