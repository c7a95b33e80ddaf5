//! Metrics of each resource group.

use std::fmt::Write;

use nyala_engine::GroupStats;

use super::escaped;

/// Name, kind, meaning, and the function that reads the value.
type Metric = (&'static str, &'static str, &'static str, fn(&GroupStats) -> u64);

const METRICS: &[Metric] = &[
    ("nyala_group_slots", "gauge", "Slots of a resource group on this node.", |group| group.slots as u64),
    (
        "nyala_group_spread_slots",
        "gauge",
        "Slots of a resource group for queries that other nodes compute.",
        |group| group.spread_slots as u64,
    ),
    ("nyala_group_running", "gauge", "Queries of a resource group that hold a slot.", |group| {
        group.running as u64
    }),
    ("nyala_group_queued", "gauge", "Queries of a resource group that wait for a slot.", |group| {
        group.queued as u64
    }),
    (
        "nyala_group_refused_total",
        "counter",
        "Queries of a resource group that were refused, because too many waited or they waited too long.",
        |group| group.refused,
    ),
];

/// The metrics in Prometheus' text format.
pub fn render(groups: &[GroupStats]) -> String {
    let mut text = String::new();
    for (name, kind, meaning, value) in METRICS {
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
        for group in groups {
            let _ = writeln!(text, "{name}{{resource_group=\"{}\"}} {}", escaped(&group.name), value(group));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_a_line_of_each_metric() {
        let reports = GroupStats {
            name: "re\"ports".to_owned(),
            slots: 4,
            spread_slots: 8,
            running: 3,
            queued: 2,
            refused: 1,
        };
        let default = GroupStats { name: "default".to_owned(), ..reports.clone() };
        let text = render(&[default, reports]);
        for line in [
            "nyala_group_slots{resource_group=\"default\"} 4\n",
            "nyala_group_spread_slots{resource_group=\"default\"} 8\n",
            "nyala_group_running{resource_group=\"re\\\"ports\"} 3\n",
            "nyala_group_queued{resource_group=\"re\\\"ports\"} 2\n",
            "# TYPE nyala_group_refused_total counter\nnyala_group_refused_total{resource_group=\"default\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
