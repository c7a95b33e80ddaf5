//! The cache over a store that counts its requests, and fails on demand.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::*;
use crate::object::{FileChanged, Version};

const BLOCK: u64 = 64 << 10;

/// A fault in answers to reads.
#[derive(Clone)]
enum Fault {
    /// The body ends early.
    Cut,
    /// The body has more than was asked for.
    Long,
    /// The body stops after so many bytes, until the test notifies it.
    Stall(usize, Arc<Notify>),
    /// There is no answer.
    Refused,
}

#[derive(Default)]
struct Store {
    files: InMemory,
    gets: AtomicUsize,
    fault: Mutex<Option<Fault>>,
}

impl Store {
    fn gets(&self) -> usize {
        self.gets.load(Ordering::SeqCst)
    }

    fn set(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    async fn put_bytes(&self, path: &str, bytes: Vec<u8>) -> ObjectMeta {
        self.files.put(&Path::from(path), bytes.into()).await.unwrap();
        self.files.head(&Path::from(path)).await.unwrap()
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        // Other readers can join the request in this time.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let fault = self.fault.lock().unwrap().clone();
        if matches!(fault, Some(Fault::Refused)) {
            return Err(Error::Generic { store: "test", source: "no answer".into() });
        }
        let answer = self.files.get_opts(path, options).await?;
        let (meta, range, attributes) =
            (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
        let body = answer.bytes().await?;
        let parts =
            |body: Bytes| stream::iter(body.chunks(10_000).map(Bytes::copy_from_slice).collect::<Vec<_>>());
        let payload = match fault {
            Some(Fault::Cut) => parts(body.slice(..body.len() / 2)).map(Ok).boxed(),
            Some(Fault::Long) => parts([&body[..], b"more"].concat().into()).map(Ok).boxed(),
            Some(Fault::Stall(bytes, until)) => {
                let rest = body.slice(bytes.min(body.len())..);
                let rest = stream::once(async move {
                    until.notified().await;
                    Ok(rest)
                });
                parts(body.slice(..bytes.min(body.len()))).map(Ok).chain(rest).boxed()
            }
            _ => parts(body).map(Ok).boxed(),
        };
        Ok(GetResult { payload: GetResultPayload::Stream(payload), meta, range, attributes })
    }

    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.files.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}

fn content(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31 + at / 251 + seed) % 256) as u8).collect()
}

/// A cache in a folder of its own, over a store.
struct Test {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    cache: Arc<BlockCache>,
    tally: Tally,
}

impl Test {
    fn new(disk_bytes: u64, memory_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path().join("cache"), disk_bytes, memory_bytes).unwrap();
        Self { folder, store: Arc::default(), cache, tally: Tally::default() }
    }

    async fn file(&self, name: &str, bytes: &[u8]) -> Arc<RemoteFile> {
        let meta = self.store.put_bytes(name, bytes.to_vec()).await;
        self.of(meta, Version::AsListed)
    }

    fn of(&self, meta: ObjectMeta, version: Version) -> Arc<RemoteFile> {
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.store) as _;
        Arc::new(RemoteFile::new(("test://", store), meta, version, BLOCK))
    }

    async fn read(&self, file: &Arc<RemoteFile>, range: Range<u64>) -> Result<Bytes> {
        self.cache.read(file, &[range], Fill::Keep, &self.tally).await.map(|mut found| found.remove(0))
    }

    /// Closes the cache, and opens its folder again.
    fn reopen(&mut self, disk_bytes: u64) {
        let nothing = open(self.folder.path().join("other"), 0, 0).unwrap();
        drop(std::mem::replace(&mut self.cache, nothing));
        self.cache = open(self.folder.path().join("cache"), disk_bytes, 0).unwrap();
    }

    fn block_files(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.folder.path().join("cache")).unwrap().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten().flatten();
        let blocks = files.map(|file| file.path()).filter(|path| path.extension().is_none());
        let mut files: Vec<PathBuf> = blocks.collect();
        files.sort();
        files
    }

    async fn settle(&self) {
        let cache = Arc::clone(&self.cache);
        tokio::task::spawn_blocking(move || cache.flush()).await.unwrap();
    }
}

fn open(folder: PathBuf, disk_bytes: u64, memory_bytes: u64) -> Result<Arc<BlockCache>, crate::StorageError> {
    let options = CacheOptions { folder, disk_bytes, memory_bytes, block_bytes: BLOCK };
    BlockCache::open(options, Handle::current())
}

fn load(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Another node's cache, with a count of the questions to it. Its answers may be damaged on the way.
#[derive(Debug)]
struct Neighbour {
    cache: Arc<BlockCache>,
    asked: AtomicUsize,
    cuts: bool,
}

impl Neighbours for Neighbour {
    fn blocks(&self, wanted: WantedBlocks) -> futures::future::BoxFuture<'_, Vec<(u64, Bytes)>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut lent = self.cache.lend(&wanted);
        if self.cuts {
            lent.iter_mut().for_each(|(_, data)| data.truncate(7));
        }
        Box::pin(futures::future::ready(lent))
    }

    fn give(&self, block: WantedBlocks, data: Bytes) {
        let number = block.numbers.start;
        self.cache.keep(&block, vec![(number, data)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_other_nodes_are_borrowed_before_the_store_is_asked() {
    for cuts in [false, true] {
        let (one, other) = (Test::new(1 << 30, 0), Test::new(1 << 30, 0));
        let data = content(10 * BLOCK + 777, 1);
        let file = one.file("a", &data).await;
        // The other node has blocks 2 to 4, and the last.
        let wanted = [2 * BLOCK..5 * BLOCK, 10 * BLOCK..10 * BLOCK + 777];
        loop {
            let before = other.store.gets();
            other.cache.read(&file, &wanted, Fill::Keep, &other.tally).await.unwrap();
            other.settle().await;
            // The disk skips blocks while it is busy: read again until nothing is missing.
            if other.store.gets() == before {
                break;
            }
        }
        let neighbour =
            Arc::new(Neighbour { cache: Arc::clone(&other.cache), asked: AtomicUsize::new(0), cuts });
        one.cache.ask_first(Arc::clone(&neighbour) as _);
        let before = one.store.gets();
        let found = one.read(&file, 0..10 * BLOCK + 777).await.unwrap();
        assert!(found[..] == data[..], "cuts: {cuts}");
        let borrowed = load(&one.cache.stats().borrowed_bytes);
        // The store is asked for the blocks that the other node lacks: 0 and 1, and 5 to 9.
        let (requests, bytes) = if cuts { (1, 0) } else { (2, 3 * BLOCK + 777) };
        assert_eq!((one.store.gets() - before, borrowed), (requests, bytes), "cuts: {cuts}");
        assert!(neighbour.asked.load(Ordering::SeqCst) > 0);
        one.settle().await;
        one.read(&file, 0..10 * BLOCK + 777).await.unwrap();
        assert_eq!(one.store.gets() - before, requests, "what was borrowed is kept");
        // The blocks from the store were given to the other node.
        other.settle().await;
        let before = other.store.gets();
        let found = other
            .cache
            .read(&file, std::slice::from_ref(&(0..2 * BLOCK)), Fill::Keep, &other.tally)
            .await
            .unwrap();
        assert!(found[0][..] == data[..2 * BLOCK as usize] && other.store.gets() == before, "cuts: {cuts}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_read_asks_the_store_for_nothing() {
    for (disk, memory) in [(1 << 30, 0), (0, 1 << 30), (1 << 30, 1 << 20)] {
        let test = Test::new(disk, memory);
        let data = content(10 * BLOCK + 777, 1);
        let file = test.file("a", &data).await;
        let ranges = [
            0..1,
            BLOCK - 1..BLOCK + 1,
            3 * BLOCK..7 * BLOCK + 5,
            10 * BLOCK..10 * BLOCK + 777,
            5..9 * BLOCK,
        ];
        for pass in 0..3 {
            let before = test.store.gets();
            let found = test.cache.read(&file, &ranges, Fill::Keep, &test.tally).await.unwrap();
            for (range, found) in ranges.iter().zip(found) {
                assert!(
                    found[..] == data[range.start as usize..range.end as usize],
                    "{range:?}, pass {pass}"
                );
            }
            let requests = if pass == 0 { 2 } else { 0 };
            assert_eq!(test.store.gets() - before, requests, "all blocks but the tenth, pass {pass}");
            test.settle().await;
        }
        assert!(
            load(&test.tally.store_bytes) > 0
                && load(&test.tally.disk_bytes) + load(&test.tally.memory_bytes) > 0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_a_block_make_one_request() {
    let test = Test::new(1 << 30, 0);
    let data = content(BLOCK, 2);
    let file = test.file("a", &data).await;
    let reads: FuturesUnordered<_> = (0..64)
        .map(|at| {
            let (file, cache, data) = (Arc::clone(&file), Arc::clone(&test.cache), data.clone());
            tokio::spawn(async move {
                let range = at * 1000..at * 1000 + 1000;
                let tally = Tally::default();
                let found =
                    cache.read(&file, std::slice::from_ref(&range), Fill::Keep, &tally).await.unwrap();
                assert!(found[0][..] == data[range.start as usize..range.end as usize]);
            })
        })
        .collect();
    assert_eq!(reads.filter(|read| std::future::ready(read.is_ok())).count().await, 64);
    assert_eq!(test.store.gets(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_reader_leaves_its_request_to_others() {
    let test = Test::new(1 << 30, 0);
    let until = Arc::new(Notify::new());
    test.store.set(Some(Fault::Stall(30_000, Arc::clone(&until))));
    let file = test.file("a", &content(BLOCK, 3)).await;
    assert_eq!(test.read(&file, 5..25_000).await.unwrap().len(), 24_995, "the bytes that have arrived");
    let first = tokio::time::timeout(Duration::from_millis(50), test.read(&file, 0..BLOCK)).await;
    assert!(first.is_err(), "the body has stopped");
    test.store.set(None);
    let second = test.read(&file, 0..BLOCK);
    until.notify_one();
    assert_eq!(second.await.unwrap(), content(BLOCK, 3));
    assert_eq!(test.store.gets(), 1);
}

/// Symptom: requests that wait for room when their readers are cancelled kept later readers waiting.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_no_reader_waits_for_do_not_begin() {
    let test = Test::new(1 << 30, 0);
    let until = Arc::new(Notify::new());
    let file = test.file("a", &content(80 << 20, 3)).await;
    let request = 8 << 20;
    let some = Duration::from_millis(100);
    test.store.set(Some(Fault::Stall(0, Arc::clone(&until))));
    let at = |number: u64| number * request..number * request + 1;
    let whole = |from: u64, to: u64| test.read(&file, from * request..to * request);
    assert!(tokio::time::timeout(some, whole(0, 4)).await.is_err(), "these four have all the room");
    assert_eq!(test.store.gets(), 4);
    assert!(tokio::time::timeout(some, whole(4, 9)).await.is_err());
    assert!(tokio::time::timeout(some, test.read(&file, at(9))).await.is_err());
    let joined = test.read(&file, at(5));
    tokio::pin!(joined);
    assert!(futures::poll!(joined.as_mut()).is_pending());
    test.store.set(None);
    until.notify_waiters();
    assert_eq!(joined.await.unwrap().len(), 1);
    assert_eq!(test.store.gets(), 5, "only the request that was joined began");
    assert_eq!(
        test.read(&file, at(9)).await.unwrap().len(),
        1,
        "the block is asked for when it is wanted again"
    );
    assert_eq!(test.store.gets(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_answers_of_the_store_are_errors_and_are_not_kept() {
    let test = Test::new(1 << 30, 0);
    let data = content(3 * BLOCK, 4);
    let file = test.file("a", &data).await;
    for (fault, words) in [
        (Fault::Cut, "Generic block cache error: the store sent 32768 of 65536 bytes of `a`"),
        (Fault::Long, "the store sent 65540 of 65536 bytes of `a`"),
        (Fault::Refused, "no answer"),
    ] {
        test.settle().await;
        test.cache.drop_blocks(|_| true);
        test.settle().await;
        test.store.set(Some(fault));
        let error = test.read(&file, 2 * BLOCK + 60_000..3 * BLOCK).await;
        if let Err(error) = error {
            assert!(error.to_string().contains(words), "{error}");
        } else {
            assert!(words.contains("65540"), "only an answer that is too long may be noticed too late");
        }
        test.store.set(None);
        assert!(test.read(&file, 0..3 * BLOCK).await.unwrap() == data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_never_mixed() {
    let test = Test::new(1 << 30, 0);
    let (old, new) = (content(4 * BLOCK, 5), content(4 * BLOCK, 6));
    let file = test.file("a", &old).await;
    assert!(test.read(&file, 0..BLOCK).await.unwrap() == old[..BLOCK as usize]);
    test.settle().await;
    let changed = test.file("a", &new).await;
    assert!(
        test.read(&file, 0..BLOCK).await.unwrap() == old[..BLOCK as usize],
        "a cached block of the old version"
    );
    let error = test.read(&file, 2 * BLOCK..3 * BLOCK).await.unwrap_err();
    let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
    assert!(causes.any(|cause| cause.is::<FileChanged>()), "{error:?}");
    assert!(test.read(&changed, 0..4 * BLOCK).await.unwrap() == new);
    test.store.files.delete(&Path::from("a")).await.unwrap();
    assert!(test.read(&changed, 0..4 * BLOCK).await.is_ok(), "it is in the cache");
    assert!(matches!(test.read(&file, 2 * BLOCK..3 * BLOCK).await, Err(Error::Precondition { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_lost_files_are_fetched_again() {
    let test = Test::new(1 << 30, 0);
    let data = content(20 * BLOCK + 5, 7);
    let file = test.file("a", &data).await;
    test.read(&file, 0..20 * BLOCK + 5).await.unwrap();
    test.settle().await;
    let files = test.block_files();
    assert_eq!(files.len(), 21);
    for (at, path) in files.iter().enumerate() {
        let mut bytes = fs::read(path).unwrap();
        match at % 4 {
            0 => fs::remove_file(path).unwrap(),
            1 => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
            2 => {}
            _ => {
                let position = at * 3001 % bytes.len();
                bytes[position] ^= 1;
                fs::write(path, bytes).unwrap();
            }
        }
    }
    let before = load(&test.tally.disk_bytes);
    assert!(test.read(&file, 0..20 * BLOCK + 5).await.unwrap() == data);
    assert_eq!(load(&test.tally.disk_bytes) - before, 4 * BLOCK + 5, "the whole ones are read");
    test.settle().await;
    let before = test.store.gets();
    assert!(test.read(&file, 0..20 * BLOCK + 5).await.unwrap() == data);
    assert_eq!(test.store.gets(), before, "all are whole again");
    assert_eq!(load(&test.cache.stats().damaged_blocks), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_outlive_the_process() {
    let mut test = Test::new(1 << 30, 0);
    let data = content(30 * BLOCK, 8);
    let file = test.file("a", &data).await;
    test.read(&file, 0..30 * BLOCK).await.unwrap();
    // Until the blocks are settled, the writer has a file of this name.
    test.settle().await;
    fs::write(test.folder.path().join("cache/new-block"), "half a block").unwrap();
    for _ in 0..2 {
        test.reopen(1 << 30);
        let before = test.store.gets();
        assert!(test.read(&file, 0..30 * BLOCK).await.unwrap() == data);
        assert_eq!(test.store.gets(), before);
        while !test.cache.disk.as_ref().unwrap().is_recovered() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(test.cache.disk.as_ref().unwrap().blocks().len(), 30);
        assert!(!test.folder.path().join("cache/new-block").exists());
    }
    test.reopen(10 * (BLOCK + 4096));
    while !test.cache.disk.as_ref().unwrap().is_recovered() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    test.settle().await;
    assert_eq!(test.block_files().len(), 10, "a smaller cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_does_not_drive_out_what_is_used() {
    let disk = 100 * (BLOCK + 4096);
    let test = Test::new(disk, 0);
    let (hot, cold) = (content(50 * BLOCK, 9), content(400 * BLOCK, 10));
    let (hot_file, cold_file) = (test.file("hot", &hot).await, test.file("cold", &cold).await);
    for _ in 0..5 {
        assert!(test.read(&hot_file, 0..50 * BLOCK).await.unwrap() == hot);
        test.settle().await;
    }
    for at in 0..400 {
        test.read(&cold_file, at * BLOCK..(at + 1) * BLOCK).await.unwrap();
        if at % 40 == 0 {
            assert!(test.read(&hot_file, 0..50 * BLOCK).await.unwrap() == hot);
        }
    }
    test.settle().await;
    let before = load(&test.tally.store_bytes);
    assert!(test.read(&hot_file, 0..50 * BLOCK).await.unwrap() == hot);
    let missed = (load(&test.tally.store_bytes) - before) / BLOCK;
    assert!(missed <= 1, "{missed} of 50 blocks were driven out");
    assert!(test.cache.used_bytes().0 <= disk);
    assert!(test.block_files().len() <= 100);
    assert!(load(&test.cache.stats().written_bytes) < 300 * BLOCK, "most of the scan is not written");
}

/// Dashboards read their blocks several times in a pass, and a scan of twice the cache's size reads each of its blocks once.
#[tokio::test(flavor = "multi_thread")]
async fn scans_that_are_repeated_do_not_drive_out_what_is_used_more() {
    let test = Test::new(750 * (BLOCK + 4096), 0);
    let (hot_file, cold_file) = (
        test.file("hot", &content(500 * BLOCK, 9)).await,
        test.file("cold", &content(1500 * BLOCK, 10)).await,
    );
    let pass = async || {
        for _ in 0..3 {
            for at in (0..500).step_by(25) {
                test.read(&hot_file, at * BLOCK..(at + 25) * BLOCK).await.unwrap();
            }
        }
    };
    for _ in 0..3 {
        pass().await;
        test.settle().await;
    }
    let before = load(&test.tally.store_bytes);
    pass().await;
    assert_eq!(load(&test.tally.store_bytes), before);
    let mut missed = 0;
    for _ in 0..6 {
        for at in (0..1500).step_by(25) {
            test.read(&cold_file, at * BLOCK..(at + 25) * BLOCK).await.unwrap();
        }
        test.settle().await;
        let before = load(&test.tally.store_bytes);
        pass().await;
        missed += (load(&test.tally.store_bytes) - before) / BLOCK;
    }
    let ratio = missed as f64 / (6.0 * 1500.0);
    assert!(ratio < 0.02, "{ratio} of the reads of dashboards missed: {:?}", test.cache.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_come_once_keep_nothing() {
    let test = Test::new(1 << 30, 0);
    let data = content(5 * BLOCK, 11);
    let file = test.file("a", &data).await;
    for _ in 0..2 {
        let all = 0..5 * BLOCK;
        let found =
            test.cache.read(&file, std::slice::from_ref(&all), Fill::Never, &test.tally).await.unwrap();
        assert!(found[0][..] == data[..]);
    }
    test.settle().await;
    assert_eq!((test.store.gets(), test.block_files().len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_costs_speed_only() {
    let test = Test::new(1 << 30, 0);
    let data = content(40 * BLOCK, 12);
    let file = test.file("a", &data).await;
    // Folders take the place of files: opening works, reading fails, and no file can replace them.
    test.read(&file, 0..40 * BLOCK).await.unwrap();
    test.settle().await;
    for path in test.block_files() {
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("x"), "x").unwrap();
    }
    for at in 0..40 {
        let range = at * BLOCK..(at + 1) * BLOCK;
        assert!(
            test.read(&file, range.clone()).await.unwrap() == data[range.start as usize..range.end as usize]
        );
        test.settle().await;
    }
    let stats = test.cache.stats();
    assert!(load(&stats.io_errors) >= 8, "{stats:?}");
    assert!(load(&stats.io_errors) < 40, "it is switched off: {stats:?}");
    assert!(load(&stats.skipped_writes) >= 20, "what cannot be read back is not written: {stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_for_one_process() {
    let test = Test::new(1 << 20, 0);
    let second = open(test.folder.path().join("cache"), 1 << 20, 0).unwrap_err();
    assert!(second.to_string().contains("in use by another process"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_never_change_have_no_version() {
    let test = Test::new(1 << 30, 0);
    let data = content(2 * BLOCK, 13);
    let meta = test.store.put_bytes("a", data.clone()).await;
    let constant = test.of(meta.clone(), Version::Constant);
    assert!(test.read(&constant, 0..2 * BLOCK).await.unwrap() == data);
    test.settle().await;
    let same = test
        .of(ObjectMeta { e_tag: None, ..test.store.put_bytes("a", data.clone()).await }, Version::Constant);
    assert!(test.read(&same, 0..2 * BLOCK).await.unwrap() == data);
    assert_eq!(test.store.gets(), 1);
    assert_eq!(test.cache.drop_blocks(|file| file == constant.id()), 2);
    test.settle().await;
    assert_eq!(test.block_files().len(), 0);
}
