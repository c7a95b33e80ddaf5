//! Profiles of a server's CPU time and memory, over HTTP. Some of them need `--features profiling`.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::program::{PATIENCE, eventually};
use crate::server::{Server, send};

/// A query that computes for longer than any profile here.
const BUSY: &str = "SELECT count(*) FROM generate_series(1, 3000000) a(n) WHERE n % 7 = 3";

#[test]
#[cfg_attr(not(feature = "profiling"), ignore = "the binary takes no profiles")]
fn a_cpu_profile_shows_what_computes_in_every_form() {
    let server = Server::empty(&[]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let started = Instant::now();
            while !done.load(Ordering::Relaxed) && started.elapsed() < PATIENCE {
                server.query(BUSY);
            }
        });
        let get = |format: &str| {
            let profile = server.get(&format!("/debug/flamegraph?seconds=1&frequency=250{format}"));
            assert_eq!(profile.status, 200, "{}", profile.body);
            profile.body
        };
        let drawn = get("");
        assert!(drawn.starts_with("<svg") && drawn.contains("datafusion"), "{drawn:.2000}");
        let folded = get("&format=folded");
        for line in folded.lines() {
            let (stack, weight) = line.rsplit_once(' ').expect(line);
            // 4 ms a sample.
            assert!(stack.contains(';') && weight.parse::<u64>().unwrap() >= 4_000_000, "{line}");
        }
        assert!(folded.contains("datafusion"), "{folded:.2000}");
        let message = get("&format=pprof");
        assert!(message.contains("nanoseconds") && message.contains("datafusion"), "{message:.200}");
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
#[cfg_attr(not(feature = "profiling"), ignore = "the binary takes no profiles")]
fn profiles_are_taken_one_at_a_time() {
    let server = Server::empty(&[]);
    std::thread::scope(|scope| {
        let server = &server;
        let get = move |seconds| server.get(&format!("/debug/flamegraph?seconds={seconds}&format=folded"));
        // The first request excludes the other; both are repeated until they came in this order.
        let long = scope.spawn(move || (0..100).map(|_| get(3)).find(|taken| taken.status == 200));
        let refused = (0..100).map(|_| get(1)).find(|taken| taken.status != 200).unwrap();
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert!(refused.body.contains("another profile is being taken"), "{}", refused.body);
        assert!(long.join().unwrap().is_some());
    });
    server.check_alive("profiles");
}

#[test]
fn what_is_asked_of_a_profile_is_bounded() {
    let server = Server::empty(&[]);
    let check = |query: &str, words: &str| {
        let refused = server.get(&format!("/debug/flamegraph?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.body);
        assert!(refused.body.contains(words), "{query}: {}", refused.body);
    };
    check("seconds=0", "`seconds` must be from 1 to 60, not 0");
    check("seconds=61", "`seconds` must be from 1 to 60, not 61");
    check("frequency=0", "`frequency` must be from 1 to 999, not 0");
    check("frequency=1000", "`frequency` must be from 1 to 999, not 1000");
    check("seconds=ten", "there are `seconds`, `frequency` and `format`");
    check("second=1", "there are `seconds`, `frequency` and `format`");
    check("format=png", "svg, folded or pprof");
    assert_eq!(server.get("/debug/heap?format=png").status, 400);
}

#[test]
#[cfg_attr(not(feature = "profiling"), ignore = "the binary takes no profiles")]
fn a_client_that_leaves_ends_its_profile() {
    let server = Server::empty(&[]);
    let mut leaving = TcpStream::connect(server.http).unwrap();
    leaving.write_all(b"GET /debug/flamegraph?seconds=60 HTTP/1.0\r\n\r\n").unwrap();
    eventually("it has begun", PATIENCE, || server.get("/debug/flamegraph?seconds=1").status == 409);
    drop(leaving);
    eventually("the next profile", PATIENCE, || server.get("/debug/flamegraph?seconds=1").status == 200);
}

#[test]
#[cfg_attr(not(feature = "profiling"), ignore = "the binary takes no profiles")]
fn a_heap_profile_shows_who_holds_memory() {
    let server = Server::empty(&[]);
    let refused = server.get("/debug/heap");
    assert_eq!(refused.status, 501, "{}", refused.body);
    assert!(refused.body.contains("_RJEM_MALLOC_CONF=prof:true"), "{}", refused.body);
    drop(server);
    let server = Server::empty(&[("_RJEM_MALLOC_CONF", "prof:true,lg_prof_sample:12")]);
    let folded = server.get("/debug/heap?format=folded");
    assert_eq!(folded.status, 200, "{}", folded.body);
    assert!(folded.body.contains("nyala_engine"), "{:.2000}", folded.body);
    assert!(server.get("/debug/heap").body.starts_with("<svg"));
}

#[test]
#[cfg_attr(feature = "profiling", ignore = "the binary takes profiles")]
fn a_binary_without_profiles_says_how_to_get_one_that_takes_them() {
    let server = Server::empty(&[]);
    for path in ["/debug/flamegraph?seconds=1", "/debug/heap"] {
        let refused = server.get(path);
        assert_eq!(refused.status, 501, "{}", refused.body);
        assert!(refused.body.contains("--features profiling"), "{}", refused.body);
    }
}

#[test]
fn web_pages_of_others_take_no_profiles() {
    let server = Server::empty(&[]);
    for path in ["/debug/flamegraph?seconds=1", "/debug/heap"] {
        let request = format!("GET {path} HTTP/1.0\r\norigin: https://evil.example\r\n\r\n");
        let received = String::from_utf8_lossy(&send(server.http, request.as_bytes())).into_owned();
        assert!(received.contains("forbidden_origin"), "{received}");
    }
}
