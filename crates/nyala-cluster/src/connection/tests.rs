//! What one connection of two nodes carries, and how one end notices that the other hangs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use nyala_model::NodeId;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use super::{Listener, Peers, serve};
use crate::identity::Identity;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// A ping without an answer, or a write without progress, shows within 7 seconds that a node hangs.
const NOTICED: Duration = Duration::from_secs(20);
const CHUNK: usize = 64 << 10;
const MIB: u64 = 1 << 20;

/// Answers by the end of the path: `endless` gives bytes as they are taken, `silent` gives none and does not end, `held` takes the thread
/// until it is let go, and everything else is short.
#[derive(Debug, Clone, Default)]
struct Answers {
    asked: Arc<AtomicUsize>,
    /// Endless and silent answers that have not ended.
    open: Arc<AtomicUsize>,
    /// Bytes that the connection took.
    given: Arc<AtomicU64>,
    is_held: Arc<AtomicBool>,
    is_let_go: Arc<AtomicBool>,
}

/// Counts an answer until it ends.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Answers {
    fn answer(&self, path: &str) -> Body {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match path.rsplit('/').next() {
            Some("endless") => self.endless(),
            Some("silent") => self.silent(),
            Some("held") => {
                self.is_held.store(true, Ordering::SeqCst);
                while !self.is_let_go.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Body::empty()
            }
            _ => Body::new(Full::new(Bytes::from_static(b"short"))),
        }
    }

    fn endless(&self) -> Body {
        let (open, given) = (Open::new(&self.open), Arc::clone(&self.given));
        let chunks = stream::repeat_with(move || {
            let _open = &open;
            given.fetch_add(CHUNK as u64, Ordering::SeqCst);
            BodyStream::new(Full::new(Bytes::from_static(&[0; CHUNK])))
        });
        Body::new(StreamBody::new(chunks.flatten()))
    }

    fn silent(&self) -> Body {
        let open = Open::new(&self.open);
        let never = stream::once(async move {
            let _open = open;
            std::future::pending::<BodyStream<Full<Bytes>>>().await
        });
        Body::new(StreamBody::new(never.flatten()))
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Service<Request<Body>> for Answers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(self.answer(request.uri().path()))))
    }
}

impl NamedService for Answers {
    const NAME: &'static str = "nyala.Test";
}

fn identity(name: &str) -> Identity {
    Identity::new(SECRET, &NodeId(name.to_owned())).unwrap()
}

/// Starts node `n1`, which gives these answers, on this runtime. Returns its address.
fn served(answers: &Answers) -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), &identity("n1")).unwrap();
    let address = listener.address().unwrap();
    let listening = listener.listen().unwrap();
    tokio::spawn(serve(listening, Routes::new(answers.clone()), std::future::pending::<()>()));
    address
}

/// Starts node `n1` as [`served`] does, on a thread of its own.
fn served_apart(answers: &Answers) -> SocketAddr {
    let (sender, receiver) = mpsc::channel();
    let answers = answers.clone();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            sender.send(served(&answers)).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

/// The connection of node `n2` to node `n1`, on this runtime.
fn connection(address: SocketAddr) -> Channel {
    let peers = Peers::new(&identity("n2"), Handle::current());
    peers.channel(&NodeId("n1".to_owned()), &address.to_string()).unwrap()
}

fn request(what: &str) -> Request<Body> {
    Request::post(format!("/nyala.Test/{what}")).body(Body::empty()).unwrap()
}

/// Sends a request, and returns its answer, which has begun.
async fn ask(channel: &Channel, what: &str) -> Body {
    let answer = channel.clone().oneshot(request(what));
    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("the request waits for others");
    answer.unwrap().into_body()
}

/// Reads at least so many bytes.
async fn read(body: &mut Body, bytes: u64) -> Result<(), String> {
    let mut read = 0;
    while read < bytes {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await;
        let frame = frame.map_err(|_| format!("no more comes after {read} bytes"))?;
        let frame = frame.ok_or_else(|| format!("the answer ends after {read} bytes"))?;
        let frame = frame.map_err(|error| error.to_string())?;
        read += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(())
}

async fn eventually(what: &str, within: Duration, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All requests of a connection share one window, 5 MB by default, and readers that stop would use it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_read_take_little_and_hold_up_no_others() {
    const UNREAD: u64 = 24;
    let answers = Answers::default();
    let channel = connection(served(&answers));
    let mut unread = Vec::new();
    for _ in 0..UNREAD {
        unread.push(ask(&channel, "endless").await);
    }
    let given = || answers.given.load(Ordering::SeqCst);
    eventually("each has filled its window", PATIENCE, || given() >= UNREAD * MIB).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Each request takes its window of 1 MiB, and what the library holds ready to be sent.
    assert!(given() < UNREAD * 2 * MIB, "{} bytes are on their way to readers that stopped", given());
    read(&mut ask(&channel, "endless").await, 8 * MIB).await.unwrap();
    eventually("the end of the one that was read", PATIENCE, || answers.open() == unread.len()).await;
    drop(unread);
    eventually("the end of all", PATIENCE, || answers.open() == 0).await;
}

/// With a limit of streams, tasks that hold one and need another wait for each other for ever. The library's is 200.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_at_once_wait_for_no_others() {
    let answers = Answers::default();
    let channel = connection(served(&answers));
    let mut open = Vec::new();
    for _ in 0..1000 {
        open.push(ask(&channel, "silent").await);
    }
    assert_eq!(answers.open(), 1000);
    read(&mut ask(&channel, "short").await, 5).await.unwrap();
    drop(open);
    eventually("the end of all", PATIENCE, || answers.open() == 0).await;
}

/// A connection on which 20 requests end before they are taken up, or 1,024 answers go on after their end, is closed by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_given_up_together_do_not_end_the_connection() {
    let answers = Answers::default();
    let channel = connection(served_apart(&answers));
    let mut kept = ask(&channel, "endless").await;
    // The only thread of the other node is held: it finds requests and their ends at once.
    let held = tokio::spawn(channel.clone().oneshot(request("held")));
    eventually("the thread is held", PATIENCE, || answers.is_held.load(Ordering::SeqCst)).await;
    let given_up: Vec<JoinHandle<_>> =
        (0..500).map(|_| tokio::spawn(channel.clone().oneshot(request("silent")))).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    given_up.iter().for_each(JoinHandle::abort);
    tokio::time::sleep(Duration::from_millis(500)).await;
    answers.is_let_go.store(true, Ordering::SeqCst);
    held.await.unwrap().unwrap();
    // More bytes than arrived before they were read: the connection still works.
    read(&mut kept, 4 * MIB).await.unwrap();
    eventually("many were given up together", PATIENCE, || answers.asked.load(Ordering::SeqCst) > 100).await;

    for _ in 0..500 {
        drop(ask(&channel, "endless").await);
    }
    read(&mut kept, 4 * MIB).await.unwrap();
    eventually("the end of all others", PATIENCE, || answers.open() == 1).await;
}

/// A node that sends `times` requests, and then neither reads nor answers pings until the sender that is returned is dropped.
fn hang(address: SocketAddr, what: &'static str, times: usize) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(async {
            let channel = connection(address);
            let mut asked = Vec::new();
            for _ in 0..times {
                asked.push(ask(&channel, what).await);
            }
            asked
        });
        // An error means that the sender is dropped.
        let _ = receiver.recv();
        drop(asked);
    });
    sender
}

/// The kernel of a stopped process goes on to acknowledge TCP segments until its buffers are full. A node that waits for an answer is found
/// by pings. To a node that receives many rows, neither pings nor GOAWAY can be written any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_for_a_node_that_hangs_ends() {
    let both = [("silent", 1), ("endless", 32)].map(|(what, times)| async move {
        let answers = Answers::default();
        let hanging = hang(served(&answers), what, times);
        eventually("what it asked for", PATIENCE, || answers.open() == times).await;
        eventually(what, NOTICED, || answers.open() == 0).await;
        drop(hanging);
    });
    join_all(both).await;
}

/// The library makes an attempt to connect for each request that waits, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_node_that_is_cut_off_fail_together() {
    // The system takes its connections, and nothing answers on them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let channel = connection(silent.local_addr().unwrap());
    let begun = Instant::now();
    let asked = join_all((0..16).map(|_| channel.clone().oneshot(request("short")))).await;
    assert!(asked.iter().all(Result::is_err));
    // Sixteen attempts of three seconds would take longer.
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
}
