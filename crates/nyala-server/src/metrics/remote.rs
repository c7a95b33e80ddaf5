//! Metrics of remote stores, and of the cache of their files.

use std::fmt::Write;

use nyala_engine::RemoteCount;

use super::escaped;

/// Name and meaning. Those that end with `_total` are counters, the others gauges.
const METRICS: &[(&str, &str)] = &[
    ("nyala_store_gets_total", "Requests for files or parts of them, by store."),
    ("nyala_store_heads_total", "Requests for size and version of one file, by store."),
    ("nyala_store_lists_total", "Listings, by store."),
    ("nyala_store_puts_total", "Writes of files, by store."),
    ("nyala_store_read_bytes_total", "Bytes of files that came from the store."),
    ("nyala_store_written_bytes_total", "Bytes of files that went to the store in one request."),
    ("nyala_remote_read_bytes_total", "Bytes of remote files that were wanted, by where they were."),
    ("nyala_block_cache_fetches_total", "Requests for missing blocks."),
    ("nyala_block_cache_borrowed_bytes_total", "Data of missing blocks that other nodes had."),
    ("nyala_block_cache_lent_bytes_total", "Data of blocks that other nodes were given."),
    ("nyala_block_cache_written_bytes_total", "Bytes of blocks written to disk."),
    ("nyala_block_cache_evictions_total", "Blocks deleted for others, or by a statement."),
    ("nyala_block_cache_rejections_total", "Blocks not kept, because others are used more."),
    ("nyala_block_cache_skipped_writes_total", "Blocks not kept, because the disk was too slow."),
    ("nyala_block_cache_damaged_total", "Blocks whose file was not as it was written."),
    ("nyala_block_cache_io_errors_total", "Failures of the disk."),
    ("nyala_block_cache_disk_bytes", "Blocks on disk."),
    ("nyala_block_cache_memory_bytes", "Blocks in memory."),
];

/// The metrics in Prometheus' text format; empty when nothing was counted.
pub fn render(counts: &[RemoteCount]) -> String {
    let mut text = String::new();
    for (name, meaning) in METRICS {
        let mut of_name = counts.iter().filter(|count| count.name == *name).peekable();
        if of_name.peek().is_none() {
            continue;
        }
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
        for RemoteCount { label, value, .. } in of_name {
            let _ = match label {
                Some((label, of)) => writeln!(text, "{name}{{{label}=\"{}\"}} {value}", escaped(of)),
                None => writeln!(text, "{name} {value}"),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_by_name() {
        let of_store = |url: &str, value| RemoteCount {
            name: "nyala_store_gets_total",
            label: Some(("store", url.to_owned())),
            value,
        };
        let used = RemoteCount { name: "nyala_block_cache_disk_bytes", label: None, value: 7 };
        let text = render(&[of_store("s3://a", 1), used, of_store("s3://b", 2)]);
        assert_eq!(
            text,
            "# HELP nyala_store_gets_total Requests for files or parts of them, by store.\n\
             # TYPE nyala_store_gets_total counter\n\
             nyala_store_gets_total{store=\"s3://a\"} 1\nnyala_store_gets_total{store=\"s3://b\"} 2\n\n\
             # HELP nyala_block_cache_disk_bytes Blocks on disk.\n\
             # TYPE nyala_block_cache_disk_bytes gauge\nnyala_block_cache_disk_bytes 7\n\n"
        );
        assert_eq!(render(&[]), "");
    }
}
