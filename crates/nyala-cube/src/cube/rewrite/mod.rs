//! Answering aggregations from cuboids.

mod answer;
mod arithmetic;
mod calls;
mod candidate;
mod cell;
mod dates;
mod dimensions;
mod exact;
mod form;
mod implied;
mod joined;
mod levels;
mod lookup;
mod matching;
mod pairing;
mod ranges;
mod raw;
mod report;
mod rule;
mod sets;
mod show;
mod states;

pub use calls::neutral;
pub use lookup::{CubeIndex, ReadyCube};
pub use matching::needed;
pub use report::{Asked, BlockReport, Chosen, Report};
pub use rule::{Routing, rewrite};
