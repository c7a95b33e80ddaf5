//! A disk store at work: who commits, who keeps the files in order, and how all of it comes back.

mod checkpoint;
mod clock;
mod commit;
mod compact;
mod failure;
mod group;
mod inner;
mod open;
mod options;
mod progress;
mod queue;
mod recover;
mod replay;
mod sealing;
mod store;
mod table;
mod threads;
mod upkeep;
mod values;

pub use clock::{Clock, Environment, SystemClock};
pub use options::StoreOptions;
pub use progress::{Phase, Progress, ProgressReport};
pub use queue::{Committed, Ticket};
pub use replay::TornTail;
pub use store::{DiskStore, StoreReport};
pub use table::LiveTable;
