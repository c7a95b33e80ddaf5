//! `nyala ping`: what health checks and scripts learn from its exit code and its words.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use crate::encryption::Encrypted;
use crate::program::{Finished, nyala, run, try_run};
use crate::server::Server;

#[test]
fn a_server_that_takes_queries_is_ready_over_both_protocols() {
    let server = Server::empty(&[]);
    check_ready(&ping(&["--url", &format!("http://{}", server.http)]), "http://");
    check_ready(&ping(&["--url", &server.url()]), "postgres://");
}

/// By default ping asks the server of the configuration, as a health check within a container does.
#[test]
fn the_server_of_the_configuration_is_asked_by_default() {
    let server = Server::empty(&[]);
    let (http, postgres) = (server.http.to_string(), server.postgres.to_string());
    let configured = |arguments: &[&str]| {
        let mut command = nyala(&["ping"]);
        command.env("NYALA_SERVER__HTTP_LISTEN", &http).env("NYALA_SERVER__POSTGRES_LISTEN", &postgres);
        try_run(command.args(arguments))
    };
    check_ready(&configured(&[]), &http);
    check_ready(&configured(&["--sql"]), &postgres);
    let mut command = nyala(&["ping"]);
    let any_port = try_run(command.env("NYALA_SERVER__HTTP_LISTEN", "127.0.0.1:0"));
    check_not_ready(&any_port, &["`server.http_listen`", "hint: name the server with `--url`"]);
}

#[test]
fn an_encrypted_server_proves_its_name_unless_it_is_of_this_machine() {
    let server = Encrypted::start(&[]);
    let (http, own) = (server.http(), server.certificate().to_str().unwrap().to_owned());
    let url = format!("https://localhost:{}", http.port());
    check_ready(&ping(&["--url", &url, "--ca", &own]), &url);
    check_not_ready(&ping(&["--url", &url]), &["cannot connect", "certificate"]);
    check_ready(&ping(&["--url", &url, "--insecure"]), &url);
    let mut command = nyala(&["ping"]);
    command.env("NYALA_SERVER__HTTP_LISTEN", http.to_string()).env("NYALA_SERVER__TLS__CERTIFICATE", &own);
    check_ready(&try_run(&mut command), "https://127.0.0.1");
    let postgres = format!("postgres://localhost:{}/nyala", server.port());
    check_ready(&ping(&["--url", &postgres]), "postgres://localhost");
    check_not_ready(&ping(&["--url", &format!("{postgres}?sslmode=disable")]), &["encrypted connections"]);
}

#[test]
fn a_server_that_is_not_ready_fails_with_its_reason() {
    let body = r#"{"error":{"code":"shutting_down","message":"the server is stopping"}}"#;
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let url = format!("http://{}", answering(answer));
    check_not_ready(&ping(&["--url", &url]), &[&url, "takes no queries: the server is stopping"]);
    let url =
        format!("http://{}", answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()));
    check_not_ready(&ping(&["--url", &url]), &["takes no queries: status 404"]);
    let url = format!("http://{}", answering("220 mail.example ESMTP\r\n".to_owned()));
    check_not_ready(&ping(&["--url", &url]), &["gave no answer"]);
}

#[test]
fn a_server_that_does_not_answer_fails() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for scheme in ["http", "postgres"] {
        let url = format!("{scheme}://{address}");
        check_not_ready(&ping(&["--timeout", "200ms", "--url", &url]), &["did not answer within 200ms"]);
    }
    drop(silent);
    for scheme in ["http", "postgres"] {
        check_not_ready(&ping(&["--url", &format!("{scheme}://{address}")]), &["cannot connect", "refused"]);
    }
}

#[test]
fn who_may_not_log_in_is_told_so() {
    let server = Server::empty(&[("NYALA_SERVER__AUTHENTICATION", "password")]);
    check_ready(&ping(&["--url", &format!("http://{}", server.http)]), "http://");
    let url = format!("postgres://mallory:guess@{}/nyala", server.postgres);
    let finished = ping(&["--url", &url]);
    check_not_ready(&finished, &["cannot connect", "password authentication failed"]);
    assert!(!finished.stderr.contains("guess"), "{finished:?}");
}

/// A password as an argument would be seen by other users of the machine.
#[test]
fn a_password_need_not_be_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("passwords"));
    run(nyala(&["sql", "-c", "CREATE USER ann PASSWORD 'it:s secret'", "--data-dir"]).arg(&data));
    let server = Server::start_with(&data, &[("NYALA_SERVER__AUTHENTICATION", "password")]);
    let url = format!("postgres://ann@{}/nyala", server.postgres);
    let line = format!("127.0.0.1:{}:*:ann:it\\:s secret\n", server.postgres.port());
    std::fs::write(&file, line).unwrap();
    let with = |name: &str, value: &str| {
        let mut command = nyala(&["ping", "--url", &url]);
        command.env_remove("PGPASSWORD").env_remove("PGPASSFILE").env("HOME", folder.path());
        try_run(command.env(name, value))
    };
    check_ready(&with("PGPASSWORD", "it:s secret"), "postgres://127.0.0.1");
    for (mode, is_used) in [(0o600, true), (0o640, false)] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let finished = with("PGPASSFILE", file.to_str().unwrap());
        if is_used {
            check_ready(&finished, "postgres://127.0.0.1");
        } else {
            check_not_ready(&finished, &["password missing", "hint: set `PGPASSWORD`", "chmod 600"]);
        }
    }
}

#[test]
fn a_wrong_command_is_refused() {
    let finished = ping(&["--sql", "--url", "http://127.0.0.1:8090"]);
    check_not_ready(&finished, &["`--sql` runs a statement over PostgreSQL's protocol", "hint:"]);
    let finished = ping(&["--insecure", "--url", "postgres://127.0.0.1/nyala?sslmode=verify-full"]);
    check_not_ready(&finished, &["`--insecure` is for `https://`", "hint:"]);
    check_not_ready(&ping(&["--url", "ftp://127.0.0.1"]), &["the URL is not a server"]);
    for arguments in [&["--timeout", "5"][..], &["--ca", "ca.pem"], &["--insecure"]] {
        assert_eq!(ping(arguments).code, Some(2), "{arguments:?}");
    }
}

fn ping(arguments: &[&str]) -> Finished {
    try_run(nyala(&["ping"]).args(arguments))
}

fn check_ready(finished: &Finished, words: &str) {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(
        finished.stdout.contains(words) && finished.stdout.contains(" is ready"),
        "{words}: {finished:?}"
    );
}

fn check_not_ready(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    for words in words {
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    }
}

/// The address of a server that gives one client this answer, whatever it asks.
fn answering(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 4096]);
        client.write_all(answer.as_bytes()).unwrap();
    });
    address
}
