//! Answers from the result cache.

use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use nyala_sql::error::Result;

use super::answer::Answer;
use super::answer::{Known, ResultKey};
use super::authorize::Caller;
use super::execution::Execution;
use super::prepared::Prepared;
use super::session::Session;
use crate::session::Settings;

impl Session {
    /// The key of the answer in the cache; none if this session does not use the cache, or the text is not known.
    pub(crate) fn result_key(
        &self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
        settings: &Settings,
    ) -> Option<ResultKey> {
        if !settings.nyala().result_cache {
            return None;
        }
        let text = prepared.exact_text()?;
        Some(ResultKey::new(text, parameters, settings, &self.engine.snapshots.current()))
    }

    /// The cached answer, if there is one; an error if this session may not read its tables.
    pub(crate) fn known_answer(&self, key: &ResultKey, settings: &Settings) -> Result<Option<Arc<Known>>> {
        let known = self.engine.results.find(key);
        self.engine.results.count(known.is_some());
        // Another session may have computed it, and a grant may have been revoked since.
        if let Some(known) = &known
            && let Some(caller) = Caller::of(self, settings)
        {
            caller.may_read(&known.from.reads)?;
        }
        Ok(known)
    }
}

impl Known {
    /// This answer, as the answer of another statement.
    pub fn repeat(&self, execution: Execution<'_>) -> Answer {
        let Execution { session, deadline, running, .. } = execution;
        let observed = &session.engine.observed;
        let rows = self.batches.iter().map(RecordBatch::num_rows).sum();
        observed.history.begin(Arc::clone(&self.from.asked), Instant::now()).add_rows(rows);
        observed.count_hits(self.from.asked.len());
        running.gives_again(rows, Arc::clone(&self.from.route));
        Answer::ready(Arc::clone(&self.schema), self.batches.clone(), running, Some(deadline))
    }
}
