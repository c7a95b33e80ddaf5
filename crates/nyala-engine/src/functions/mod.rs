//! Functions of our own, and what is known about the aggregates whose states are stored.

mod aggregate;
mod algebra;
mod bitmap;
mod bounded;
mod distinct;
mod mended;
mod register;
mod rint;
mod sketch;
mod state;
mod stored;
mod values;

pub(crate) use algebra::{
    Algebra, algebra, counted_in, counting, ignores_duplicates, ignores_nulls, is_its_state, is_repeatable,
    share_states,
};
pub(crate) use bounded::bound_calls;
pub(crate) use mended::adding;
pub(crate) use register::register;
pub(crate) use rint::{Rint, nearest_whole};
pub(crate) use state::{StateVersion, state_version};
pub(crate) use stored::stored_form;
