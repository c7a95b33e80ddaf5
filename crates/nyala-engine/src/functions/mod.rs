//! Functions, and what is known about the aggregates whose states are stored.

mod algebra;
mod state;
mod stored;

pub(crate) use algebra::{
    Algebra, adding, algebra, counted_in, counting, ignores_duplicates, ignores_nulls, share_states,
};
pub(crate) use state::{StateVersion, state_version};
pub(crate) use stored::stored_form;
