//! Tests of whole stores, on a simulated disk.

mod basics;
mod fixture;
