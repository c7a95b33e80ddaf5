//! Progress of disk stores on their way into memory, for the operator.

use std::time::Duration;

use nyala_storage::oplog::{Phase, ProgressReport};

use super::store::StoreState;
use super::stores::LiveStores;

/// A disk store that is being opened, or still reads values into memory.
#[derive(Debug)]
pub struct Recovery {
    /// Position of the store in the list of all stores, by name.
    pub id: u64,
    /// The disk store.
    pub name: String,
    /// The phase of its recovery.
    pub phase: &'static str,
    /// Progress within the phase.
    pub progress: String,
    /// A number that changes with the progress.
    pub sign: u64,
    /// Time since its recovery began.
    pub took: Duration,
}

/// The stores that are being opened, or still have values to read.
pub fn recoveries(stores: &LiveStores) -> Vec<Recovery> {
    let stores = stores.all().into_iter().zip(0..);
    let recovering = stores.filter_map(|(store, id)| {
        let report = store.progress().report();
        let under_way = match store.state() {
            StoreState::Opening => true,
            StoreState::Open(..) => report.phase < Phase::Ready,
            StoreState::Failed(_) | StoreState::Closed => false,
        };
        under_way.then(|| Recovery {
            id,
            name: store.name().to_owned(),
            phase: phase_name(report.phase),
            progress: progress(&report),
            sign: sign(&report),
            took: store.age(),
        })
    });
    recovering.collect()
}

/// The name of a phase.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Keys => "keys",
        Phase::Log => "log",
        Phase::Values => "values",
        Phase::Ready => "ready",
    }
}

fn progress(report: &ProgressReport) -> String {
    let ProgressReport { rows_done, rows_total, log_bytes_done, log_bytes_total, .. } = report;
    match report.phase {
        Phase::Waiting => "its turn".to_owned(),
        Phase::Keys => format!("{rows_done} of {rows_total} rows"),
        Phase::Log => format!("{log_bytes_done} of {log_bytes_total} bytes of log"),
        Phase::Values | Phase::Ready => {
            format!("{} of {} bytes of values", report.bytes_done, report.bytes_total)
        }
    }
}

fn sign(report: &ProgressReport) -> u64 {
    let counts = [report.phase as u64, report.rows_done, report.log_bytes_done, report.bytes_done];
    counts.iter().fold(0, |sign, count| sign.wrapping_mul(31).wrapping_add(*count))
}
