//! Functions of our own, and the properties of aggregates with stored states.

mod aggregate;
mod algebra;
mod bitmap;
mod bounded;
mod distinct;
mod overrides;
mod register;
mod rint;
mod sketch;
mod state;
mod stored;
mod values;

pub use algebra::{
    Algebra, algebra, counted_in, counting, ignores_duplicates, ignores_nulls, is_its_state, is_repeatable,
    share_states,
};
pub use bounded::{bound_call, constants_for_rows, needs_bound};
pub use overrides::adding;
pub use register::register;
pub use rint::{Rint, nearest_whole};
pub use state::{StateVersion, state_version};
pub use stored::stored_form;
