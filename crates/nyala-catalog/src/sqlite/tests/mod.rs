#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod crash;
mod damage;
mod flips;
mod promises;
mod restore;
mod upgrade;
