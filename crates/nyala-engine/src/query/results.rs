//! Answers that are given again.
//!
//! Only to who asks for it, by `SET nyala.result_cache = on`, and only if cuboids gave them: these do not change within
//! one snapshot and listing of files, which is part of the key. What reads tables, the system or the clock is computed
//! every time. Whoever gets an answer of somebody else must be allowed to read what it was computed from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use moka::sync::Cache;
use nyala_sql::error::Result;

use super::activity::Running;
use super::answer::Answer;
use super::history::Recorded;
use super::planning::Unoptimized;
use super::prepared::Prepared;
use super::run::Deadline;
use super::session::Session;
use super::{authorize, run};
use crate::session::{Settings, SnapshotContext};

/// Answers that nobody asked for in this time are given up.
const IDLE: Duration = Duration::from_secs(3600);
/// One answer may take this part of the budget.
const LARGEST_PART: usize = 16;
/// What an entry takes beside its rows, in bytes, and more for each byte of its text: it has a plan, which is a tree of small objects
/// that nobody counts.
const ENTRY_BYTES: usize = 8 << 10;
const BYTES_OF_TEXT: usize = 8;

/// Everything that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ResultKey {
    text: Arc<str>,
    parameters: Vec<ScalarValue>,
    settings: Arc<str>,
    /// Of the context, which is one catalog snapshot in the light of one listing of files.
    epoch: u64,
}

impl ResultKey {
    pub(super) fn new(
        text: &str,
        parameters: &[ScalarValue],
        settings: &Settings,
        context: &SnapshotContext,
    ) -> Self {
        Self {
            text: text.into(),
            parameters: parameters.to_vec(),
            settings: Arc::clone(settings.key()),
            epoch: context.epoch(),
        }
    }

    /// About the memory that an answer takes beside its rows.
    fn bytes(&self) -> usize {
        let text = BYTES_OF_TEXT.saturating_mul(self.text.len());
        ENTRY_BYTES + text + self.settings.len() + ScalarValue::size_of_vec(&self.parameters)
    }
}

/// An answer, and what must be known to give it again.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) schema: SchemaRef,
    pub(super) batches: Vec<RecordBatch>,
    /// What it reads.
    pub(super) from: Source,
}

/// Where an answer comes from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Tells which tables must be granted.
    pub(super) plan: Arc<Unoptimized>,
    pub(super) asked: Arc<Recorded>,
    pub(super) answered_from: Option<Arc<str>>,
}

/// Answers, bounded in bytes. Those asked for often stay.
pub(super) struct ResultCache {
    answers: Cache<ResultKey, Arc<Known>>,
    most_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Counts of the result cache since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultCacheStats {
    /// Queries whose answer was there.
    pub hits: u64,
    /// Queries whose session wanted it from there, and that were computed.
    pub misses: u64,
    /// Answers that are kept.
    pub entries: u64,
    /// Memory they take, in bytes.
    pub bytes: u64,
}

impl ResultCache {
    /// A cache of `budget_bytes`; 0 keeps nothing.
    pub(super) fn new(budget_bytes: usize) -> Self {
        let answers = Cache::builder()
            .max_capacity(budget_bytes as u64)
            .weigher(|key: &ResultKey, known: &Arc<Known>| weight(key, known))
            .time_to_idle(IDLE)
            .build();
        let most_bytes = budget_bytes / LARGEST_PART;
        Self { answers, most_bytes, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    pub(super) fn find(&self, key: &ResultKey) -> Option<Arc<Known>> {
        self.answers.get(key)
    }

    pub(super) fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> ResultCacheStats {
        self.answers.run_pending_tasks();
        ResultCacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: self.answers.entry_count(),
            bytes: self.answers.weighted_size(),
        }
    }
}

fn weight(key: &ResultKey, known: &Known) -> u32 {
    let rows: usize = known.batches.iter().map(RecordBatch::get_array_memory_size).sum();
    u32::try_from(key.bytes().saturating_add(rows)).unwrap_or(u32::MAX)
}

/// An answer on its way to the client that will be kept if it arrives whole.
pub(super) struct Keeping {
    cache: Arc<ResultCache>,
    key: ResultKey,
    from: Source,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Keeping {
    pub(super) fn new(cache: &Arc<ResultCache>, key: ResultKey, from: Source) -> Self {
        // What an entry takes whatever it holds is not for the answer to make up for.
        let bytes = key.bytes().saturating_sub(ENTRY_BYTES);
        Self { cache: Arc::clone(cache), key, from, batches: Vec::new(), bytes }
    }

    /// Takes note of a batch. False if the answer has become too large to be kept.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> bool {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch.clone());
        self.bytes <= self.cache.most_bytes
    }

    /// The answer is whole.
    pub(super) fn finish(self, schema: SchemaRef) {
        let known = Known { schema, batches: self.batches, from: self.from };
        self.cache.answers.insert(self.key, Arc::new(known));
    }
}

impl Session {
    /// Under what its answer would be kept; none if this session wants every answer computed.
    pub(super) fn result_key(
        &self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
        settings: &Settings,
    ) -> Option<ResultKey> {
        if !settings.nyala().result_cache {
            return None;
        }
        let text = prepared.exact_text()?;
        Some(ResultKey::new(text, parameters, settings, &self.engine.context()))
    }

    /// An answer that was given before, if this session may have it.
    pub(super) fn answer_again(
        &self,
        key: &ResultKey,
        settings: &Settings,
        deadline: &Deadline,
        running: &mut Option<Running>,
    ) -> Result<Option<Answer>> {
        let engine = &self.engine;
        let known = engine.results.find(key);
        engine.results.count(known.is_some());
        let Some(known) = known else { return Ok(None) };
        // Somebody else may have asked, and what was granted may have been taken.
        authorize::plan(engine, &self.options().identity, known.from.plan.logical(), settings)?;
        let Some(running) = running.take() else { return Ok(None) };
        let rows = known.batches.iter().map(RecordBatch::num_rows).sum();
        engine.history.begin(Arc::clone(&known.from.asked), Instant::now()).add_rows(rows);
        engine.count_hits(known.from.asked.len());
        running.gives_again(rows, known.from.answered_from.clone());
        Ok(Some(run::ready(
            Arc::clone(&known.schema),
            known.batches.clone(),
            running,
            Some(deadline.clone()),
        )))
    }
}

impl fmt::Debug for ResultCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultCache").field("hits", &self.hits).finish_non_exhaustive()
    }
}
