//! Requests for blocks: one for all readers of a block, and one for consecutive blocks.
//!
//! ```text
//! readers ──┐             ┌─▶ block 4 ─▶ readers that want its first bytes go on
//! readers ──┴▶ request ───┼─▶ block 5
//!                         └─▶ block 6 ─▶ kept ─▶ written ─▶ no longer listed
//! ```
//! A request is a task of its own, so that it goes on when the reader that caused it is cancelled. If it has not begun by
//! then, and no other reader joined it, it is given up.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::Error;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use super::block::{BlockId, runs};
use super::file::RemoteFile;
use super::neighbours::{Neighbours, WantedBlocks};
use super::shared_error::SharedError;

/// Most bytes of all requests at a time. Later requests wait.
const MAX_BYTES_AT_ONCE: usize = 32 << 20;
/// Most bytes of one request.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// A block on its way.
pub struct Arriving {
    bytes: usize,
    state: Mutex<State>,
    changed: Notify,
    /// Whether some reader wants it to be kept.
    keep: AtomicBool,
}

#[derive(Default)]
struct State {
    parts: Vec<Bytes>,
    arrived: usize,
    failed: Option<SharedError>,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arriving").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Arriving {
    fn new(bytes: usize, keep: bool) -> Self {
        Self { bytes, state: Mutex::default(), changed: Notify::new(), keep: AtomicBool::new(keep) }
    }

    /// Waits for a part of the block.
    ///
    /// # Errors
    /// The request failed.
    pub async fn part(&self, part: Range<usize>) -> Result<Vec<Bytes>, SharedError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no notification can be missed.
            changed.as_mut().enable();
            {
                let state = lock(&self.state);
                if state.arrived >= part.end {
                    return Ok(cut(&state.parts, &part));
                }
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
            }
            changed.await;
        }
    }

    fn has_failed(&self) -> bool {
        lock(&self.state).failed.is_some()
    }

    fn missing(&self) -> usize {
        self.bytes.saturating_sub(lock(&self.state).arrived)
    }

    fn add(&self, part: Bytes) {
        let mut state = lock(&self.state);
        state.arrived += part.len();
        state.parts.push(part);
        drop(state);
        self.changed.notify_waiters();
    }

    /// The whole block, in one piece.
    fn join(&self) -> Bytes {
        let mut state = lock(&self.state);
        let mut all = BytesMut::with_capacity(self.bytes);
        state.parts.iter().for_each(|part| all.extend_from_slice(part));
        let all = all.freeze();
        state.parts = vec![all.clone()];
        all
    }

    fn fail(&self, error: SharedError) {
        let mut state = lock(&self.state);
        if state.arrived < self.bytes && state.failed.is_none() {
            state.failed = Some(error);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// The parts of the bytes in `range`.
fn cut(parts: &[Bytes], range: &Range<usize>) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut at = 0;
    for part in parts {
        let (from, to) = (range.start.max(at), range.end.min(at + part.len()));
        if from < to {
            found.push(part.slice(from - at..to - at));
        }
        at += part.len();
    }
    found
}

/// All blocks on their way, and all blocks that wait to be written.
#[derive(Debug)]
pub struct Flights {
    listed: Mutex<HashMap<BlockId, Arc<Arriving>>>,
    room: Semaphore,
    runtime: Handle,
    neighbours: OnceLock<Arc<dyn Neighbours>>,
}

/// The receiver of blocks that have arrived. The guard keeps a block listed.
pub trait Landing: Send + Sync + 'static {
    /// Keeps the block if it is worth its room.
    fn land(&self, block: BlockId, data: Bytes, guard: Box<dyn Send>);
    /// Counts a request to a store.
    fn requested(&self);
    /// Counts bytes of blocks that another cache had.
    fn borrowed(&self, bytes: u64);
}

/// Keeps a block in the list until this is dropped.
struct Listed {
    flights: Arc<Flights>,
    block: BlockId,
    arriving: Arc<Arriving>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.arriving.fail(SharedError::abandoned());
        let mut listed = lock(&self.flights.listed);
        // After a failure another request may be listed.
        if listed.get(&self.block).is_some_and(|arriving| Arc::ptr_eq(arriving, &self.arriving)) {
            listed.remove(&self.block);
        }
    }
}

impl Flights {
    /// Requests run on this runtime.
    pub fn new(runtime: Handle) -> Arc<Self> {
        let room = Semaphore::new(MAX_BYTES_AT_ONCE);
        Arc::new(Self { listed: Mutex::default(), room, runtime, neighbours: OnceLock::new() })
    }

    /// Sets the caches that are asked before a store is. Later calls change nothing.
    pub fn ask_first(&self, neighbours: Arc<dyn Neighbours>) {
        let _ = self.neighbours.set(neighbours);
    }

    /// Joins requests for these blocks of a file, sorted by number, and begins requests for missing ones. None for a block that
    /// `is_kept`: it was written, and left the list, since the reader looked for it.
    pub fn join(
        self: &Arc<Self>,
        file: &Arc<RemoteFile>,
        numbers: &[u64],
        keep: bool,
        landing: &Arc<impl Landing>,
        is_kept: impl Fn(&BlockId) -> bool,
    ) -> Vec<Option<Arc<Arriving>>> {
        let (mut joined, mut begun) = (Vec::with_capacity(numbers.len()), VecDeque::new());
        let mut listed = lock(&self.listed);
        for &number in numbers {
            let block = BlockId { file: file.id(), number };
            let bytes = file.cut().bytes_of(&(number..number + 1));
            // A request that has failed is listed until its task ends.
            if let Some(arriving) = listed.get(&block).filter(|arriving| !arriving.has_failed()) {
                if keep {
                    arriving.keep.store(true, Ordering::Relaxed);
                }
                joined.push(Some(Arc::clone(arriving)));
                continue;
            }
            if is_kept(&block) {
                joined.push(None);
                continue;
            }
            let bytes = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
            let arriving = Arc::new(Arriving::new(bytes, keep));
            listed.insert(block, Arc::clone(&arriving));
            begun.push_back(Listed { flights: Arc::clone(self), block, arriving: Arc::clone(&arriving) });
            joined.push(Some(arriving));
        }
        drop(listed);
        let numbers: Vec<u64> = begun.iter().map(|listed| listed.block.number).collect();
        for run in runs(&numbers, MAX_REQUEST_BYTES / file.cut().block_bytes) {
            let blocks = begun.drain(..usize::try_from(run.end - run.start).unwrap_or(0)).collect();
            let request = Request { file: Arc::clone(file), run, flights: Arc::clone(self) };
            let landing = Arc::clone(landing);
            self.runtime.spawn(async move { request.run(blocks, landing.as_ref()).await });
        }
        joined
    }

    /// Takes blocks off the list if no reader waits for any of them.
    fn give_up(&self, blocks: &VecDeque<Listed>) -> bool {
        let mut listed = lock(&self.listed);
        // The list and the request have one reference each, readers have the others. Readers join under the lock.
        let wanted = |block: &Listed| Arc::strong_count(&block.arriving) > 2;
        if blocks.iter().any(wanted) {
            return false;
        }
        for block in blocks {
            listed.remove(&block.block);
        }
        true
    }
}

/// A request for consecutive blocks.
struct Request {
    file: Arc<RemoteFile>,
    run: Range<u64>,
    flights: Arc<Flights>,
}

impl Request {
    async fn run(self, mut blocks: VecDeque<Listed>, landing: &impl Landing) {
        if let Err(error) = self.fetch(&mut blocks, landing).await {
            let error = SharedError::from(error);
            blocks.iter().for_each(|listed| listed.arriving.fail(error.clone()));
        }
    }

    async fn fetch(&self, blocks: &mut VecDeque<Listed>, landing: &impl Landing) -> Result<(), Error> {
        let range = self.file.cut().bytes_of(&self.run);
        let bytes = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
        // This cannot fail: the semaphore is never closed, and has more permits than a request takes.
        let Ok(_room) = self.flights.room.acquire_many(bytes.min(MAX_BYTES_AT_ONCE as u32)).await else {
            return Ok(());
        };
        if self.flights.give_up(blocks) {
            blocks.clear();
            return Ok(());
        }
        self.borrow(blocks, landing).await;
        let numbers: Vec<u64> = blocks.iter().map(|listed| listed.block.number).collect();
        for run in runs(&numbers, u64::MAX) {
            let count = usize::try_from(run.end - run.start).unwrap_or(usize::MAX);
            let mut of_run = blocks.drain(..count.min(blocks.len())).collect();
            if let Err(error) = self.ask_store(run, &mut of_run, landing).await {
                blocks.extend(of_run);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the blocks that another cache has.
    async fn borrow(&self, blocks: &mut VecDeque<Listed>, landing: &impl Landing) {
        let Some(neighbours) = self.flights.neighbours.get() else { return };
        let wanted = self.wanted(self.run.clone());
        for (number, data) in neighbours.blocks(wanted.clone()).await {
            let found = blocks.iter().position(|listed| listed.block.number == number);
            if wanted.fits(number, &data)
                && let Some(listed) = found.and_then(|at| blocks.remove(at))
            {
                landing.borrowed(data.len() as u64);
                listed.arriving.add(data);
                land(listed, landing);
            }
        }
    }

    fn wanted(&self, numbers: Range<u64>) -> WantedBlocks {
        WantedBlocks {
            file: self.file.id(),
            url: Arc::clone(self.file.name()),
            file_bytes: self.file.cut().file_bytes,
            block_bytes: self.file.cut().block_bytes,
            numbers,
        }
    }

    async fn ask_store(
        &self,
        run: Range<u64>,
        blocks: &mut VecDeque<Listed>,
        landing: &impl Landing,
    ) -> Result<(), Error> {
        let range = self.file.cut().bytes_of(&run);
        landing.requested();
        let mut body = self.file.get(range.clone()).await?;
        let mut arrived = 0;
        while let Some(part) = body.next().await {
            let mut part = part?;
            arrived += part.len() as u64;
            while !part.is_empty() {
                let Some(listed) = blocks.front() else {
                    return Err(self.file.wrong_length(&range, arrived));
                };
                let missing = listed.arriving.missing();
                listed.arriving.add(part.split_to(missing.min(part.len())));
                if listed.arriving.missing() == 0
                    && let Some(listed) = blocks.pop_front()
                {
                    let number = listed.block.number;
                    if let (Some(data), Some(neighbours)) =
                        (land(listed, landing), self.flights.neighbours.get())
                    {
                        neighbours.give(self.wanted(number..number + 1), data);
                    }
                }
            }
        }
        if blocks.is_empty() { Ok(()) } else { Err(self.file.wrong_length(&range, arrived)) }
    }
}

/// Keeps a block that has arrived, if a reader wants it kept; gives the kept bytes.
fn land(listed: Listed, landing: &impl Landing) -> Option<Bytes> {
    if !listed.arriving.keep.load(Ordering::Relaxed) {
        return None;
    }
    let data = listed.arriving.join();
    landing.land(listed.block, data.clone(), Box::new(listed));
    Some(data)
}
