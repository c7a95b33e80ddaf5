//! Looks at places before a server uses them. Files and objects that are made for this are removed again.

mod folder;
mod place;

pub use folder::{ProbedFolder, probe_folder};
pub use place::ProbedPlace;
