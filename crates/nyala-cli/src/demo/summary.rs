//! The comparison as a table and in one sentence.

use std::time::Duration;

use comfy_table::presets::ASCII_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::compare::Timing;

/// One line for each query.
pub fn table(timings: &[Timing]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_FULL_CONDENSED);
    table.set_header(["query", "rows", "tables", "cube", "factor", "answered from"]);
    for timing in timings {
        table.add_row([
            timing.name.to_owned(),
            timing.rows.to_string(),
            shown(timing.tables),
            shown(timing.cubes),
            format!("{:.1}", factor(timing)),
            if timing.from_cube { "cube".to_owned() } else { "tables".to_owned() },
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A summary of the table in one sentence.
pub fn conclusion(timings: &[Timing]) -> String {
    let from_cube = timings.iter().filter(|timing| timing.from_cube).count();
    format!(
        "{from_cube} of {} queries were answered from the cube, with the same rows as from the tables; \
         in the geometric mean {:.1} times as fast",
        timings.len(),
        geometric_mean(timings)
    )
}

/// Microseconds below ten milliseconds: cubes answer in fractions of one.
fn shown(time: Duration) -> String {
    match time.as_micros() {
        micros @ 0..10_000 => format!("{micros} µs"),
        micros => format!("{:.1} ms", micros as f64 / 1000.0),
    }
}

fn factor(timing: &Timing) -> f64 {
    // A time of zero is below the clock's resolution.
    timing.tables.as_secs_f64() / timing.cubes.as_secs_f64().max(1e-9)
}

fn geometric_mean(timings: &[Timing]) -> f64 {
    let logarithms: f64 = timings.iter().map(|timing| factor(timing).max(1e-9).ln()).sum();
    (logarithms / timings.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn factors_are_averaged_geometrically() {
        let timing = |tables, cubes, from_cube| Timing {
            name: "Q1.1",
            rows: 1,
            tables: Duration::from_millis(tables),
            cubes: Duration::from_millis(cubes),
            from_cube,
        };
        let timings = [timing(100, 1, true), timing(10, 10, false)];
        let text = conclusion(&timings);
        assert!(text.starts_with("1 of 2 queries were answered from the cube"), "{text}");
        assert!(text.ends_with("10.0 times as fast"), "{text}");
        let table = table(&timings);
        assert!(table.contains("| 100.0 ms | 1000 µs |  100.0 | cube"), "{table}");
    }
}
