//! Proposes a cube for recorded queries.
//!
//! ```text
//! history ──star.rs──▶ shapes over one join ──demand.rs──▶ the dimensions that each needs
//!                                                              │
//!               CREATE CUBE ◀──statement── chosen sets ◀──greedy.rs── cells, estimated by sample.rs
//! ```
//!
//! Whether a shape would be served is not guessed: the proposed cube is compiled, its joins are checked on
//! the data, and shapes are matched with it as queries are.

mod demand;
mod greedy;
mod sample;
mod star;

pub use demand::{Advice, advise, without_covered};
pub use star::stars;
