//! Moves ended queries to the book, and the book to the catalog.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use nyala_catalog::Catalog;
use nyala_cube::cube::Asked;
use nyala_cube::cube::build::{Background, now_ms};
use nyala_model::{NodeId, QueryHistoryEntry};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::book::{Answered, Book, KEPT};

/// Ended queries that may wait for the book; further ones are not recorded.
const WAITING: usize = 1 << 16;
/// How often ended queries enter the book. Not at once: waking a task for each would cost a good part of a
/// small query's own time.
const TAKEN_EVERY: Duration = Duration::from_millis(200);
/// Readers that may wait for the book to catch up; further ones wait to be queued.
const ASKING: usize = 16;
/// How often changed entries are stored in the catalog.
const STORED_EVERY: Duration = Duration::from_secs(10);

/// The aggregations of a query, shared by all runs of one plan.
#[derive(Debug)]
pub struct Recorded {
    asked: Vec<Asked>,
    /// Made by the task that keeps the book, once for all runs.
    answered: OnceLock<Vec<Arc<Answered>>>,
}

impl Recorded {
    pub fn new(asked: Vec<Asked>) -> Self {
        Self { asked, answered: OnceLock::new() }
    }

    /// Number of aggregations.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    pub fn answered(&self) -> &[Arc<Answered>] {
        self.answered.get_or_init(|| self.asked.iter().filter_map(Answered::of).map(Arc::new).collect())
    }
}

/// One query that ended.
#[derive(Debug)]
pub struct Event {
    pub asked: Arc<Recorded>,
    pub took: Duration,
    pub rows: u64,
    pub at_ms: u64,
}

/// Queries that ended and are not in the book yet. Without lock, since every query would take it.
#[derive(Debug, Default)]
struct Ended {
    queue: SegQueue<Event>,
}

impl Ended {
    fn push(&self, event: Event) {
        // If the task cannot keep up, it is better to lose a query than to use memory without limit.
        if self.queue.len() < WAITING {
            self.queue.push(event);
        }
    }
}

/// The history of one engine.
#[derive(Debug)]
pub struct History {
    ended: Arc<Ended>,
    /// Readers that wait until every query that ended before is in the book.
    asking: Sender<oneshot::Sender<()>>,
    book: Arc<Mutex<Book>>,
    catalog: Arc<Catalog>,
    node: NodeId,
}

impl History {
    /// Starts the task that keeps the book of this node. When the engine stops or is dropped, it stores the rest and ends.
    pub fn start(
        (catalog, node): (&Arc<Catalog>, &NodeId),
        background: &Background,
        stopping: CancellationToken,
    ) -> Self {
        let (asking, receiver) = channel(ASKING);
        let (book, ended) = (Arc::new(Mutex::new(Book::default())), Arc::new(Ended::default()));
        let keeper = Keeper {
            catalog: Arc::clone(catalog),
            node: node.clone(),
            book: Arc::clone(&book),
            ended: Arc::clone(&ended),
        };
        background.finish(keeper.keep(receiver, stopping));
        Self { ended, asking, book, catalog: Arc::clone(catalog), node: node.clone() }
    }

    /// A query that has been planned; it ends when this is dropped.
    pub fn begin(&self, asked: Arc<Recorded>, begun: Instant) -> Recording {
        Recording { asked, begun, left_out: Duration::ZERO, rows: 0, ended: Arc::clone(&self.ended) }
    }

    /// All entries, with every query that ended on this node before this call, and what the other nodes have stored; the
    /// query asked last comes first.
    pub async fn entries(&self) -> Vec<QueryHistoryEntry> {
        let (sender, caught_up) = oneshot::channel();
        if self.asking.send(sender).await.is_ok() {
            // An error means that the engine stops, and there is nothing more to wait for.
            let _ = caught_up.await;
        }
        let own = self.book.lock().unwrap_or_else(PoisonError::into_inner).entries();
        match self.catalog.history_of_others(&self.node).await {
            Ok(others) => together(own, others),
            Err(error) => {
                tracing::warn!(%error, "the query history of other nodes is left out");
                own
            }
        }
    }
}

fn together(own: Vec<QueryHistoryEntry>, others: Vec<QueryHistoryEntry>) -> Vec<QueryHistoryEntry> {
    if others.is_empty() {
        return own;
    }
    let mut all: HashMap<String, QueryHistoryEntry> =
        own.into_iter().map(|entry| (entry.id.clone(), entry)).collect();
    for other in others {
        match all.get_mut(&other.id) {
            Some(known) => known.add(&other),
            None => drop(all.insert(other.id.clone(), other)),
        }
    }
    let mut all: Vec<QueryHistoryEntry> = all.into_values().collect();
    all.sort_by(|a, b| b.last_asked_ms.cmp(&a.last_asked_ms).then_with(|| a.id.cmp(&b.id)));
    all
}

/// A running query, recorded at its end, however it ends.
#[derive(Debug)]
pub struct Recording {
    asked: Arc<Recorded>,
    begun: Instant,
    left_out: Duration,
    rows: u64,
    ended: Arc<Ended>,
}

impl Recording {
    /// Counts rows that the client gets.
    pub fn add_rows(&mut self, rows: usize) {
        self.rows = self.rows.saturating_add(rows as u64);
    }

    /// Leaves out time that the client took, and not the query.
    pub fn leave_out(&mut self, time: Duration) {
        self.left_out += time;
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.asked.len() == 0 {
            return;
        }
        let asked = Arc::clone(&self.asked);
        let took = self.begun.elapsed().saturating_sub(self.left_out);
        self.ended.push(Event { asked, took, rows: self.rows, at_ms: now_ms() });
    }
}

struct Keeper {
    catalog: Arc<Catalog>,
    node: NodeId,
    book: Arc<Mutex<Book>>,
    ended: Arc<Ended>,
}

impl Keeper {
    async fn keep(self, mut asking: Receiver<oneshot::Sender<()>>, stopping: CancellationToken) {
        match self.catalog.query_history(&self.node).await {
            Ok(entries) => self.with_book(|book| book.load(entries)),
            Err(error) => tracing::warn!(%error, "the query history begins anew"),
        }
        let mut store = tokio::time::interval(STORED_EVERY);
        let mut take = tokio::time::interval(TAKEN_EVERY);
        loop {
            tokio::select! {
                asking = asking.recv() => match asking {
                    Some(asking) => {
                        self.take();
                        let _ = asking.send(());
                    }
                    None => break,
                },
                _ = take.tick() => self.take(),
                _ = store.tick() => self.store().await,
                () = stopping.cancelled() => break,
            }
        }
        self.take();
        self.store().await;
    }

    fn take(&self) {
        // Takes no more events than there are now, because more queries end meanwhile.
        for _ in 0..self.ended.queue.len() {
            let Some(event) = self.ended.queue.pop() else { return };
            // The shapes are made outside of the lock: making SQL takes longer than adding it.
            let shaped = Book::shape(&event);
            self.with_book(|book| book.add(shaped));
        }
    }

    async fn store(&self) {
        let changed = self.with_book(Book::take_changed);
        if changed.is_empty() {
            return;
        }
        if let Err(error) = self.catalog.record_queries(&self.node, &changed, KEPT).await {
            tracing::warn!(%error, "the query history was not stored; it is tried again");
            self.with_book(|book| book.not_stored(&changed));
        }
    }

    fn with_book<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        work(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
