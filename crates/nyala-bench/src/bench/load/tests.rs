//! A server that stalls, and servers that refuse: the results must show both.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::client::{Client, Shared, Times};
use super::pace::Pace;
use super::recorder::Recorder;
use super::usage::Progress;
use super::*;
use crate::bench::door::{Mode, Target};
use crate::bench::workload::{Random, select_one};

const BODY: &str = r#"{"columns":[{"name":"a"}],"rows":[[1]],"row_count":1}"#;
const STALL: Duration = Duration::from_millis(600);

/// Queries due in the first half of a stall wait at least as long as its second half, though the server
/// was asked one of them only.
#[tokio::test]
async fn who_arrives_during_a_stall_waits_for_its_end() {
    let measured = measure(load(Some(500.0), 1), |number, mut client| async move {
        if number == 20 {
            tokio::time::sleep(STALL).await;
        }
        respond(&mut client, "200 OK", BODY).await;
        Some(client)
    })
    .await;
    assert_eq!(measured.total.handled, 500, "each arrival counts once: {:?}", measured.errors);
    let waited = measured.total.latencies.count_from(STALL / 2);
    // 150 are due in the first half of the stall, but for those that the server answered before it.
    assert!(waited >= 125, "{waited} waited at least half of the stall");
}

/// In a closed loop the same stall is seen by the one client that waits for it.
#[tokio::test]
async fn a_closed_loop_sees_what_its_clients_see() {
    let measured = measure(load(None, 1), |number, mut client| async move {
        if number == 20 {
            tokio::time::sleep(STALL).await;
        }
        respond(&mut client, "200 OK", BODY).await;
        Some(client)
    })
    .await;
    assert!(measured.total.latencies.count_from(STALL) >= 1);
    assert_eq!(measured.total.latencies.count(), measured.total.handled);
    assert_eq!((measured.total.errors, measured.total.unfinished), (0, 0), "{:?}", measured.errors);
    assert_eq!(measured.total.rows, measured.total.handled);
}

/// Of two queries the first is due in the warm-up and answered in the measured second, the other is due in that second
/// and answered a second after its end. The first counts for throughput, the other for latency, and the measured time
/// is no longer because of it.
#[tokio::test]
async fn throughput_is_what_is_answered_in_the_measured_time() {
    let warmup = Duration::from_millis(200);
    let measured = measure(Load { warmup, ..load(None, 1) }, |number, mut client| async move {
        let wait = if number == 0 { 400 } else { 2000 };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        respond(&mut client, "200 OK", BODY).await;
        Some(client)
    })
    .await;
    assert_eq!((measured.total.handled, measured.usage.handled), (1, 1), "{:?}", measured.errors);
    assert!(measured.total.latencies.quantile_ms(1.0) >= 2000.0);
    assert!(measured.per_second() > 0.6, "{} a second", measured.per_second());
}

#[tokio::test]
async fn what_the_server_refuses_is_an_error_and_not_handled() {
    let measured = measure(load(Some(100.0), 2), |number, mut client| async move {
        match number % 3 {
            0 => {
                respond(&mut client, "503 Service Unavailable", r#"{"error":{"message":"too many queries"}}"#)
                    .await
            }
            1 => respond(&mut client, "200 OK", r#"{"columns":[{},{}],"rows":[[1,2]]}"#).await,
            // The connection is closed in the middle of the answer.
            _ => return None,
        }
        Some(client)
    })
    .await;
    assert_eq!((measured.total.handled, measured.total.errors), (0, 100), "{:?}", measured.errors);
    assert!(measured.errors.contains_key("too many queries"), "{:?}", measured.errors);
    assert!(measured.errors.contains_key("an answer of 2 columns instead of 1"), "{:?}", measured.errors);
}

/// An unanswered query counts with the time it waited, instead of not at all.
#[tokio::test]
async fn a_server_that_never_answers_leaves_everything_unfinished() {
    let measured = measure(Load { drain: Duration::ZERO, ..load(Some(100.0), 3) }, |_, client| async move {
        std::future::pending::<()>().await;
        Some(client)
    })
    .await;
    assert_eq!((measured.total.handled, measured.total.unfinished), (0, 100), "{:?}", measured.errors);
    assert_eq!(measured.total.latencies.count(), 100);
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_for_each_attempt() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let target = Target::parse(&format!("http://{address}"), Mode::Simple, None).unwrap();
    let workload = Arc::new(select_one().unwrap());
    let measured = run(&target, &workload, load(Some(50.0), 2), None).await.unwrap();
    assert_eq!((measured.total.handled, measured.total.errors), (0, 50), "{:?}", measured.errors);
    probe(&target, &workload, Duration::from_secs(5), 1).await.unwrap_err();
}

/// Memory must be read when the measured time is over and every client still connected.
#[tokio::test]
async fn a_client_stays_connected_when_it_has_nothing_more_to_ask() {
    let (target, serving) = serve(|_, mut client| async move {
        respond(&mut client, "200 OK", BODY).await;
        Some(client)
    })
    .await;
    let (now, timeout) = (Instant::now(), Duration::from_secs(60));
    let until = now + Duration::from_millis(100);
    let shared = Arc::new(Shared {
        target,
        workload: Arc::new(select_one().unwrap()),
        pace: Pace::Closed,
        times: Times { from: now, until, deadline: until + timeout, timeout },
        recorder: Recorder::new(1).unwrap(),
        progress: Progress::default(),
    });
    let client = Client::new(Arc::clone(&shared), None, Random::of_client(1, 1));
    assert!(client.run().await.is_some(), "{:?}", shared.recorder.messages());
    assert!(shared.recorder.total().unwrap().handled > 0);
    serving.abort();
}

fn load(per_second: Option<f64>, clients: usize) -> Load {
    Load {
        clients,
        per_second,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(1),
        timeout: Duration::from_secs(60),
        drain: Duration::from_secs(60),
        seed: 1,
    }
}

/// Measures a server as [`serve`] makes it.
async fn measure<A, F>(load: Load, answer: A) -> Measured
where
    A: Fn(u64, TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = Option<TcpStream>> + Send,
{
    let (target, serving) = serve(answer).await;
    let workload = Arc::new(select_one().unwrap());
    let measured = run(&target, &workload, load, None).await.unwrap();
    serving.abort();
    measured
}

/// A server that answers its requests, counted over all connections, as `answer` says.
async fn serve<A, F>(answer: A) -> (Target, JoinHandle<()>)
where
    A: Fn(u64, TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = Option<TcpStream>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target =
        Target::parse(&format!("http://{}", listener.local_addr().unwrap()), Mode::Simple, None).unwrap();
    let requests = Arc::new(AtomicU64::new(0));
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (answer, requests) = (answer.clone(), Arc::clone(&requests));
            tokio::spawn(async move {
                while read_request(&mut client).await {
                    let Some(next) = answer(requests.fetch_add(1, Ordering::Relaxed), client).await else {
                        return;
                    };
                    client = next;
                }
            });
        }
    });
    (target, serving)
}

/// Reads a request to its end; false if there is none.
async fn read_request(client: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    // Every request of this workload ends with these bytes.
    while !read.ends_with(br#""SELECT 1"}"#) {
        match client.read_buf(&mut read).await {
            Ok(1..) => {}
            _ => return false,
        }
    }
    true
}

async fn respond(client: &mut TcpStream, status: &str, body: &str) {
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // A client that has left needs no answer.
    let _ = client.write_all(response.as_bytes()).await;
}

/// The server closes connections after some answers, as proxies do: the client connects anew for its next query, which is no error.
#[tokio::test]
async fn a_connection_that_the_server_closes_after_an_answer_is_replaced() {
    let load = Load { timeout: Duration::from_secs(3), ..load(Some(100.0), 2) };
    let measured = measure(load, |_, mut client| async move {
        respond(&mut client, "200 OK\r\nconnection: close", BODY).await;
        None
    })
    .await;
    assert_eq!((measured.total.handled, measured.total.errors), (100, 0), "{:?}", measured.errors);
}

/// The server closes the connection while it is idle.
#[tokio::test]
async fn a_connection_that_the_server_closes_between_two_queries_is_replaced() {
    let load = Load { timeout: Duration::from_secs(3), ..load(Some(2.0), 1) };
    let measured = measure(load, |_, mut client| async move {
        respond(&mut client, "200 OK", BODY).await;
        None
    })
    .await;
    assert_eq!((measured.total.handled, measured.total.errors), (2, 0), "{:?}", measured.errors);
}
