//! Functions of our own, and what is known about the aggregates whose states are stored.

mod aggregate;
mod bitmap;
mod distinct;
mod register;
mod sketch;
mod state;
mod stored;
mod values;

pub(crate) use register::register;
pub(crate) use state::{StateVersion, state_version};
pub(crate) use stored::stored_form;
