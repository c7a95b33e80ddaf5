//! Metrics of each disk store; a dropped store is not reported any more.

use std::fmt::Write;

use nyala_engine::DiskStoreStats;

use super::escaped;

/// Name, meaning, and the function that reads the value.
type Gauge = (&'static str, &'static str, fn(&DiskStoreStats) -> Option<u64>);

const GAUGES: &[Gauge] = &[
    ("nyala_disk_store_open", "1 if it serves reads.", |store| Some(store.open.into())),
    ("nyala_disk_store_writable", "1 if it takes writes.", |store| Some(store.writable.into())),
    ("nyala_disk_store_ready", "1 if all its values are in memory that shall be.", |store| {
        Some(store.ready.into())
    }),
    ("nyala_disk_store_rows", "Rows of its live tables.", |store| Some(store.rows)),
    ("nyala_disk_store_memory_bytes", "What its live tables hold in memory, about.", |store| {
        Some(store.memory_bytes)
    }),
    ("nyala_disk_store_keys_ready_milliseconds", "How long its start took until keys were known.", |store| {
        store.keys_ready_ms
    }),
    ("nyala_disk_store_value_bytes_total", "Bytes of values that its start reads.", |store| {
        Some(store.value_bytes.0)
    }),
    ("nyala_disk_store_value_bytes_done", "Bytes of values that its start has read.", |store| {
        Some(store.value_bytes.1)
    }),
];

/// The metrics in Prometheus' text format; empty when there are no disk stores.
pub fn render(stores: &[DiskStoreStats]) -> String {
    let mut text = String::new();
    if stores.is_empty() {
        return text;
    }
    for (name, meaning, value) in GAUGES {
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
        for store in stores {
            if let Some(value) = value(store) {
                let _ = writeln!(text, "{name}{{disk_store=\"{}\"}} {value}", escaped(&store.name));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_has_a_line_and_what_is_not_known_has_none() {
        let opening = DiskStoreStats {
            memory_bytes: 0,
            name: "a\"b".to_owned(),
            writable: false,
            open: false,
            keys_ready_ms: None,
            value_bytes: (7, 3),
            ready: false,
            rows: 0,
        };
        let open =
            DiskStoreStats { name: "c".to_owned(), open: true, keys_ready_ms: Some(9), ..opening.clone() };
        let text = render(&[opening, open]);
        assert!(text.contains("nyala_disk_store_open{disk_store=\"a\\\"b\"} 0\n"), "{text}");
        assert!(text.contains("nyala_disk_store_open{disk_store=\"c\"} 1\n"), "{text}");
        assert_eq!(text.matches("nyala_disk_store_keys_ready_milliseconds{").count(), 1, "{text}");
    }
}
