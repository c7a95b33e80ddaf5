//! Answering the requests of other nodes.

use std::sync::Arc;

use arrow_flight::Action;
use nyala_engine::{Engine, QueryError};

use super::messages::{from_action, to_body};

/// Carries out a control request. Dropping the future cancels it.
///
/// # Errors
/// The request is of another version, or the engine refuses it.
pub async fn answer(engine: &Arc<Engine>, action: Action) -> Result<arrow_flight::Result, QueryError> {
    let answer = engine.administer(from_action(action)?).await?;
    Ok(arrow_flight::Result { body: to_body(&answer)? })
}
