//! The result cache.
//!
//! A session uses it after `SET nyala.result_cache = on`. It keeps only answers from cuboids: these do not change
//! within one snapshot and listing of files, which is part of the key. Queries that read tables, the system or the
//! clock are computed every time. A session gets the answer of another one only if it may read the tables of the query.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use moka::sync::Cache;
use nyala_model::QualifiedName;

use crate::query::activity::Route;
use crate::query::counters::CacheCounts;
use crate::query::history::Recorded;
use crate::session::{Settings, SnapshotContext};

/// Answers that no query used for this long are dropped.
const IDLE: Duration = Duration::from_secs(3600);
/// One answer may take at most the budget divided by this.
const MAX_PART: usize = 16;
/// Estimated bytes of an entry beside its rows, and further bytes for each byte of its text: it has the aggregations that were asked for,
/// trees of small objects that are not counted one by one.
const ENTRY_BYTES: usize = 8 << 10;
const BYTES_OF_TEXT: usize = 8;

/// Everything that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResultKey {
    text: Arc<str>,
    parameters: Vec<ScalarValue>,
    settings: Arc<str>,
    /// Epoch of the context: one catalog snapshot with one listing of files.
    epoch: u64,
}

impl ResultKey {
    pub fn new(
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

    /// Estimated memory of an entry beside its rows.
    fn bytes(&self) -> usize {
        let text = BYTES_OF_TEXT.saturating_mul(self.text.len());
        ENTRY_BYTES + text + self.settings.len() + ScalarValue::size_of_vec(&self.parameters)
    }
}

/// A cached answer with its source.
#[derive(Debug)]
pub struct Known {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    /// The source, for access checks, the query history and the list of queries.
    pub from: Source,
}

/// The source of an answer.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tables and views that must be granted.
    pub reads: Arc<[QualifiedName]>,
    pub asked: Arc<Recorded>,
    pub route: Arc<Route>,
}

/// Cached answers, bounded in bytes. Answers that are used often stay.
pub struct ResultCache {
    answers: Cache<ResultKey, Arc<Known>>,
    most_bytes: usize,
    counts: CacheCounts,
}

/// Counts of the result cache since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultCacheStats {
    /// Queries answered from the cache.
    pub hits: u64,
    /// Queries that had to be computed although their session uses the cache.
    pub misses: u64,
    /// Answers that are kept.
    pub entries: u64,
    /// Memory they take, in bytes.
    pub bytes: u64,
}

impl ResultCache {
    /// A cache of `budget_bytes`; 0 keeps nothing.
    pub fn new(budget_bytes: usize) -> Self {
        let answers = Cache::builder()
            .max_capacity(budget_bytes as u64)
            .weigher(|key: &ResultKey, known: &Arc<Known>| weight(key, known))
            .time_to_idle(IDLE)
            .build();
        let most_bytes = budget_bytes / MAX_PART;
        Self { answers, most_bytes, counts: CacheCounts::default() }
    }

    pub fn find(&self, key: &ResultKey) -> Option<Arc<Known>> {
        self.answers.get(key)
    }

    pub fn count(&self, hit: bool) {
        self.counts.count(hit);
    }

    pub fn stats(&self) -> ResultCacheStats {
        self.answers.run_pending_tasks();
        ResultCacheStats {
            hits: self.counts.hits(),
            misses: self.counts.misses(),
            entries: self.answers.entry_count(),
            bytes: self.answers.weighted_size(),
        }
    }
}

fn weight(key: &ResultKey, known: &Known) -> u32 {
    let rows: usize = known.batches.iter().map(RecordBatch::get_array_memory_size).sum();
    u32::try_from(key.bytes().saturating_add(rows)).unwrap_or(u32::MAX)
}

/// An answer on its way to the client; it is cached if the client reads all of it.
pub struct Keeping {
    cache: Arc<ResultCache>,
    key: ResultKey,
    from: Source,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Keeping {
    pub fn new(cache: &Arc<ResultCache>, key: ResultKey, from: Source) -> Self {
        // The fixed cost of an entry does not count against the size limit of one answer.
        let bytes = key.bytes().saturating_sub(ENTRY_BYTES);
        Self { cache: Arc::clone(cache), key, from, batches: Vec::new(), bytes }
    }

    /// Adds a batch. False if the answer has become too large to be kept.
    pub fn add(&mut self, batch: &RecordBatch) -> bool {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch.clone());
        self.bytes <= self.cache.most_bytes
    }

    /// Puts the complete answer into the cache.
    pub fn finish(self, schema: SchemaRef) {
        let known = Known { schema, batches: self.batches, from: self.from };
        self.cache.answers.insert(self.key, Arc::new(known));
    }
}

impl fmt::Debug for ResultCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultCache").field("counts", &self.counts).finish_non_exhaustive()
    }
}
