//! The process without a reader of its output, or an answer to its requests.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

use crate::program::{PATIENCE, Running, eventually, nyala, run, try_run};
use crate::server::{Server, send};

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both calls fail if the process has already ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pipes end when a log is rotated or a terminal closed. Only the output after that is lost.
#[test]
fn a_server_goes_on_when_nobody_reads_its_output_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let doors = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [postgres, http] = doors.each_ref().map(|door| door.local_addr().unwrap());
    drop(doors);
    let mut command = nyala(&["serve", "--postgres-listen", &postgres.to_string()]);
    command.args(["--http-listen", &http.to_string(), "--data-dir"]).arg(folder.path());
    // A refused connection is logged.
    command.env("NYALA_SERVER__MAX_CONNECTIONS", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Ended(command.spawn().unwrap());
    drop((server.0.stdout.take(), server.0.stderr.take()));
    eventually("listening", PATIENCE, || TcpStream::connect(http).is_ok());
    let answer = || String::from_utf8_lossy(&send(http, b"GET /readyz HTTP/1.0\r\n\r\n")).into_owned();
    let index = || String::from_utf8_lossy(&send(http, b"GET /api/v1/ HTTP/1.0\r\n\r\n")).into_owned();
    eventually("a refusal", PATIENCE, || {
        let mut first = TcpStream::connect(http).unwrap();
        first.write_all(b"GET /api/v1/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
        read_until(&mut first, b"HTTP/1.1 ");
        index().contains("too_many_connections")
    });
    assert!(answer().starts_with("HTTP/1.0 200"), "health is told whether there are places or not");
    eventually("an answer", PATIENCE, || index().starts_with("HTTP/1.0 200"));
    let url = format!("postgres://{postgres}/nyala");
    assert_eq!(run(&mut nyala(&["sql", "--url", &url, "--format", "csv", "-c", "SELECT 1 AS a"])), "a\n1\n");
    assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
}

/// The server lets clients in and then says no more, as one that was stopped or lost its network.
#[test]
fn a_client_can_leave_a_server_that_does_not_answer() {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://{}/nyala", door.local_addr().unwrap());
    let mut client = Running::start(&mut nyala(&["sql", "--url", &url, "-c", "SELECT 'asked'"]));
    let (mut socket, _) = door.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = [0; 8];
    socket.read_exact(&mut request).unwrap();
    socket.write_all(b"N").unwrap();
    read_until(&mut socket, b"database\0nyala\0");
    // The client is logged in, and may send a query.
    socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
    read_until(&mut socket, b"SELECT 'asked'");
    client.signal("INT");
    // The client asks to cancel, and the server does not answer that either.
    let (_canceling, _) = door.accept().unwrap();
    eventually("it ends", PATIENCE, || {
        // The client may end meanwhile: then there is no process to signal.
        let id = client.id().to_string();
        let signaled = client.is_running()
            && Command::new("sh").args(["-c", "kill -s INT \"$1\"", "sh", &id]).status().is_ok();
        !signaled
    });
    let finished = client.finish(PATIENCE);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("cancelled, but has not ended"), "{finished:?}");
}

/// Without a check client and server would wait for each other: the server for rows, which `nyala sql` cannot send.
#[test]
fn a_copy_that_waits_for_rows_is_ended_and_the_next_step_is_told() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    for sql in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
        let refused = try_run(&mut nyala(&["sql", "--url", &server.url(), "-c", sql]));
        assert_eq!(refused.code, Some(1), "{sql}: {refused:?}");
        assert!(refused.stderr.contains("psql"), "{sql}: {refused:?}");
    }
    eventually("nothing runs", PATIENCE, || server.query("SELECT count(*) FROM system.queries") == [["1"]]);
}

fn read_until(socket: &mut TcpStream, words: &[u8]) {
    let mut read = Vec::new();
    while !read.windows(words.len()).any(|part| part == words) {
        let mut byte = [0; 1];
        socket.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
}

/// A folder whose name is misread would be served as an empty database.
#[test]
fn a_variable_that_cannot_be_read_is_told() {
    let refused = try_run(nyala(&["config"]).env("NYALA_DATA_DIR", OsStr::from_bytes(b"/data/\xff")));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("`NYALA_DATA_DIR` is not valid UTF-8"), "{refused:?}");
    run(nyala(&["config"]).env("OTHER", OsStr::from_bytes(b"\xff")));
}
