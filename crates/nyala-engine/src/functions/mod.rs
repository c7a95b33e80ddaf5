//! Functions, and what is known about the aggregates whose states are stored.

mod state;
mod stored;

pub(crate) use state::{StateVersion, state_version};
pub(crate) use stored::stored_form;
