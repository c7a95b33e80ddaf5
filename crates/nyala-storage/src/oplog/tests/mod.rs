//! Tests of whole stores, on a simulated disk.

mod all_types;
mod basics;
mod bounds;
mod concurrent;
mod copies;
mod crash;
mod damage;
mod durability;
mod faults;
mod feed;
mod fixture;
mod formats;
mod isolation;
mod killed;
mod labels;
mod memory;
mod points;
pub(super) mod random;
mod types;
mod workload;
mod written;
