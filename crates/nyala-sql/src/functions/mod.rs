//! Functions of our own, and the properties of aggregates with stored states.

mod aggregate;
mod algebra;
mod bitmap;
mod bounded;
mod call_rows;
mod date_part;
mod date_trunc;
mod decimal_floats;
mod decimal_range;
mod differences;
mod distinct;
mod expressions;
mod floats;
mod free_times;
mod has;
mod interval_reading;
mod intervals;
mod json;
mod list_texts;
mod named_cast;
mod overrides;
mod patterns;
mod plain;
mod postgres;
mod quotient;
mod register;
mod rint;
mod sketch;
mod state;
mod stored;
mod time_reading;
mod time_texts;
mod value_texts;
mod values;
mod zones;

pub use algebra::{
    Algebra, algebra, bitmap_counting, counted_in, counting, ignores_duplicates, ignores_nulls, is_its_state,
    is_repeatable, share_states, state_family,
};
pub use bounded::{Joined, bound_call, constants_for_rows, needs_bound};
pub use call_rows::CallRows;
pub use date_part::DatePart;
pub use decimal_floats::{NearestFloat, nearest_floats};
pub use decimal_range::check_digits;
pub use differences::days_between;
pub use expressions::{similar_inner, translated};
pub use floats::check_floats;
pub use has::Has;
pub use interval_reading::interval_of;
pub use intervals::{INTERVAL, Intervals, Of};
pub use json::{JsonOperators, checked, checked_json, is_json, normal_json};
pub use named_cast::NAMED_CAST;
pub use overrides::adding;
pub use plain::no_function;
pub use postgres::type_name;
pub use postgres::{UUID, Uuids, read_uuid, uuid_texts, uuids_of};
pub use quotient::{Quotient, decimal_of, digits, digits_of_integer, wide};
pub use register::register;
pub use rint::{Rint, nearest_whole};
pub use state::{StateVersion, state_version};
pub use stored::stored_form;
pub use time_reading::{date_of_text, time_of_text, timestamp_of};
pub use time_texts::{TimeText, texts as time_texts};
pub use value_texts::{ValueText, is_bytes, is_plain, is_written_otherwise, texts as value_texts};
pub use zones::AtTimeZone;
