//! Tests of whole stores, on a simulated disk.

mod basics;
mod crash;
mod damage;
mod faults;
mod feed;
mod fixture;
mod workload;
