//! Tests of whole stores, on a simulated disk.

mod basics;
mod concurrent;
mod copies;
mod crash;
mod damage;
mod durability;
mod faults;
mod feed;
mod fixture;
mod killed;
mod memory;
mod types;
mod workload;
