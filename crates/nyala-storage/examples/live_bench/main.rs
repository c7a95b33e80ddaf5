//! Measures a disk store: recovery beside a raw read of the same bytes, ingest, commits and reads of single rows.
//!
//! ```sh
//! cargo build --release --workspace --example live_bench
//! target/release/examples/live_bench recovery /tmp/bench 2x1000000 1x10000000
//! target/release/examples/live_bench ingest /tmp/bench 5000000
//! target/release/examples/live_bench commits /tmp/bench 32 5
//! target/release/examples/live_bench points /tmp/bench 1000000
//! target/release/examples/live_bench beside /tmp/bench 10000000 10
//! ```
//!
//! `recovery` starts itself anew for each measurement, so that memory is that of one start; it writes a table to
//! the console and everything measured to `recovery.json` in the folder. Give the machine to it alone: times of a
//! busy one mean nothing, its seconds of processor time little.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod beside;
mod points;
mod process;
mod recovery;
mod rows;
mod writing;

use std::path::PathBuf;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).cloned().unwrap_or_default();
    let number = |at: usize, default: u64| text(at).parse().unwrap_or(default);
    let folder = PathBuf::from(text(1));
    match text(0).as_str() {
        "recovery" => recovery::run(&folder, arguments.get(2..).unwrap_or_default()),
        "fill" => recovery::fill(&folder, number(2, 1000), &text(3)),
        "start" => recovery::start(&folder, number(2, 2)),
        "ingest" => writing::ingest(&folder, number(2, 5_000_000)),
        "commits" => writing::commits(&folder, number(2, 32), number(3, 5)),
        "points" => points::run(&folder, number(2, 1_000_000)),
        "beside" => beside::run(&folder, number(2, 10_000_000), number(3, 10)),
        other => panic!("`{other}` is not `recovery`, `ingest`, `commits`, `points` or `beside`"),
    }
}
