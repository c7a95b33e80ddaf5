//! A disk store at work: who commits, who keeps the files in order, and how all of it comes back.

mod changes;
mod checkpoint;
mod clock;
mod commit;
mod compact;
mod copy;
mod disk_store;
mod failure;
mod group;
mod inner;
mod open;
mod options;
mod prepare;
mod progress;
mod queue;
mod recover;
mod replay;
mod salvage;
mod sealing;
mod table;
mod threads;
mod upkeep;
mod values;
mod verify;

pub use changes::{Change, ChangeFeed};
pub use clock::{Clock, Environment, SystemClock};
pub use copy::restore;
pub use disk_store::{DiskStore, StoreReport};
pub use options::StoreOptions;
pub use progress::{Phase, Progress, ProgressReport};
pub use queue::{Committed, Ticket};
pub use replay::TornTail;
pub use salvage::{SalvageReport, salvage};
pub use table::LiveTable;
pub use verify::{CheckedFile, VerifyReport, verify};
