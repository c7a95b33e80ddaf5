//! Tests of whole stores, on a simulated disk.

mod basics;
mod crash;
mod fixture;
mod workload;
