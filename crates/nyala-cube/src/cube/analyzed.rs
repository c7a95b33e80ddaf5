//! Plans over the expressions of a cube, which were analyzed when the cube was compiled.

use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::optimizer::Analyzer;

/// A state that gives no expression PostgreSQL's meaning, but coerces types.
///
/// A second analysis changes what the first one has made: `date + 1` is a date and an interval of a day by then, and would become a
/// timestamp.
pub fn state_for_analyzed(state: &SessionState) -> SessionStateBuilder {
    SessionStateBuilder::new_from_existing(state.clone()).with_analyzer_rules(Analyzer::new().rules)
}
