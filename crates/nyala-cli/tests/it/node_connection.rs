//! Effects of many statements, of clients that stall and of clients that leave on the one connection of two nodes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::forwarding::two;
use crate::program::{PATIENCE, eventually};
use crate::server::{Server, statement_request};
use crate::shared_catalog::Shared;

/// The address on which a node listens for others.
fn node_address(server: &Server) -> SocketAddr {
    let name = server.query("SELECT node FROM system.local_queries")[0][0].clone();
    let sql = format!("SELECT address FROM system.nodes WHERE node = '{name}'");
    server.query(&sql)[0][0].parse().unwrap()
}

/// The local ports of this machine's connections to an address.
fn connections_to(address: SocketAddr) -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let wanted = format!(":{:04X}", address.port());
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|line| line[2].ends_with(&wanted) && line[3] == "01")
        .map(|line| line[1].to_owned())
        .collect()
}

/// Sends a statement, and does not read the answer.
fn ask(server: &Server, sql: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.http).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(&statement_request(sql)).unwrap();
    client
}

#[test]
fn clients_that_stop_reading_hold_up_no_others() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    // 60 MB: more than the buffers of a stream hold, and than HTTP/2's default window of a connection.
    owner.query("INSERT INTO t SELECT v + 10, repeat('y', 200) FROM generate_series(1, 300000) AS s(v)");
    let large = "SELECT a.id, a.v FROM t a";
    let stalled: Vec<TcpStream> = (0..4).map(|_| ask(&other, large)).collect();
    eventually("the large answers", PATIENCE, || {
        owner.query(
            "SELECT count(*) FROM system.local_queries WHERE query LIKE '%t a%' AND sent_by IS NOT NULL",
        ) == [["4"]]
    });
    for id in 0..100 {
        assert_eq!(other.query(&format!("SELECT count(*) FROM t WHERE id = 11 + {id}")), [["1"]]);
    }
    let mut stalled = stalled.into_iter();
    let mut answer = Vec::new();
    stalled.next().unwrap().read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 60_000_000, "{} bytes", answer.len());
    drop(stalled);
    eventually("the end of all", PATIENCE, || {
        owner.query("SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL") == [["0"]]
    });
}

#[test]
fn hundreds_of_streams_at_once_share_a_connection() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let address = node_address(&owner);
    let followers: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut client = TcpStream::connect(other.http).unwrap();
            client.write_all(b"GET /api/v1/tables/t/changes HTTP/1.0\r\n\r\n").unwrap();
            client
        })
        .collect();
    eventually("all followers on the owner", PATIENCE, || {
        owner.query("SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL") == [["300"]]
    });
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
    assert_eq!(connections_to(address).len(), 1);
    drop(followers);
}

#[test]
fn a_thousand_clients_that_leave_do_not_break_the_connection() {
    let shared = Shared::new();
    let (owner, other) = two(&shared);
    let address = node_address(&owner);
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
    let before = connections_to(address);
    assert_eq!(before.len(), 1);
    let long = "SELECT count(*) FROM t a, generate_series(1, 100000) b(x), generate_series(1, 1000000) c(y) WHERE x + y = a.id";
    for _ in 0..25 {
        let clients: Vec<TcpStream> = (0..40).map(|_| ask(&other, long)).collect();
        eventually("a statement on the owner", PATIENCE, || {
            owner.query("SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL") != [["0"]]
        });
        drop(clients);
    }
    eventually("the end of all", PATIENCE, || {
        let left = "SELECT count(*) FROM system.local_queries WHERE query LIKE '%generate_series%' AND query NOT LIKE '%system%'";
        owner.query(left) == [["0"]] && other.query(left) == [["0"]]
    });
    assert_eq!(other.query("SELECT count(*) FROM t"), [["3"]]);
    assert_eq!(connections_to(address), before, "the connection is the same one");
}
