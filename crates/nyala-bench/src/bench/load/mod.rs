//! One run: clients that ask for a while, and the measured results.

mod alarm;
mod client;
mod pace;
mod recorder;
mod run;
#[cfg(test)]
mod tests;
mod usage;

pub use recorder::Tally;
pub use run::{Load, Measured, probe, run, run_both};
pub use usage::{Held, Usage};
