//! What a service manager such as systemd is told of a server.

use std::os::unix::net::UnixDatagram;

use crate::program::PATIENCE;
use crate::server::Server;

#[test]
fn the_manager_is_told_of_start_life_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let mut server = Server::start_with(&folder.path().join("data"), &variables);
    let ready = next();
    assert!(ready.starts_with("READY=1\nSTATUS="), "{ready}");
    assert!(
        ready.contains(&server.postgres.to_string()) && ready.contains(&server.http.to_string()),
        "{ready}"
    );
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    server.process.signal("TERM");
    let stopping = std::iter::repeat_with(next).find(|text| text != "WATCHDOG=1").unwrap();
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC="), "{stopping}");
    let finished = server.finish(PATIENCE);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn a_server_serves_without_a_manager_that_listens() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    let server = Server::empty(&[("NOTIFY_SOCKET", absent.to_str().unwrap())]);
    server.check_alive("a manager that is gone");
    assert!(server.process.stderr().contains("the service manager was not told: READY=1"));
}
