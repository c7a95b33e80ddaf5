//! The first user of a server that asks for passwords, whose password is in a file.

use std::path::Path;

use crate::program::{Finished, nyala, run, try_run};
use crate::server::Server;

#[test]
fn the_first_user_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("password.csv"));
    std::fs::write(&file, "it's secret\n").unwrap();
    let server = serve(&data, &file);
    check(&ask(&server, "it%27s%20secret", "SELECT 40 + 2 AS a"), Some(0), "a\n42\n");
    check(&ask(&server, "wrong", "SELECT 1"), Some(1), "password authentication failed");
    // A superuser may create schemas, and still not read the file.
    check(&ask(&server, "it%27s%20secret", "CREATE SCHEMA mart"), Some(0), "");
    let read = format!("SELECT * FROM '{}'", file.display());
    check(&ask(&server, "it%27s%20secret", &read), Some(1), "files of the server itself");
    drop(server);

    // The password stays as it is, whatever the file says later.
    std::fs::write(&file, "another\n").unwrap();
    let server = serve(&data, &file);
    check(&ask(&server, "another", "SELECT 1"), Some(1), "password authentication failed");
    check(&ask(&server, "it%27s%20secret", "SELECT 40 + 2 AS a"), Some(0), "a\n42\n");
    drop(server);
    std::fs::remove_file(&file).unwrap();
    let server = serve(&data, &file);
    check(&ask(&server, "it%27s%20secret", "SELECT 40 + 2 AS a"), Some(0), "a\n42\n");
}

/// A lost password can be replaced while no server runs, by a statement and a restart.
#[test]
fn a_superuser_without_a_password_gets_the_one_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("password"));
    std::fs::write(&file, "lost\n").unwrap();
    drop(serve(&data, &file));
    let alter = |options: &str| {
        let sql = format!("ALTER USER admin {options}");
        run(nyala(&["sql", "-c", &sql, "--data-dir"]).arg(&data));
    };
    alter("NOLOGIN PASSWORD NULL");
    std::fs::write(&file, "found\n").unwrap();
    let server = serve(&data, &file);
    check(&ask(&server, "found", "SELECT 40 + 2 AS a"), Some(0), "a\n42\n");
    drop(server);
    // The file does not make a superuser of a role that is none.
    alter("NOSUPERUSER");
    let mut command = nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    let refused =
        try_run(command.arg("--data-dir").arg(&data).env("NYALA_SERVER__FIRST_PASSWORD_FILE", &file));
    check(&refused, Some(1), "role `admin`, the value of `server.first_user`, is there and no superuser");
}

#[test]
fn a_server_without_users_needs_the_password_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let start = || {
        let mut command =
            nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(folder.path().join("data"));
        try_run(command.env("NYALA_SERVER__FIRST_PASSWORD_FILE", &file))
    };
    check(&start(), Some(1), "the value of `server.first_password_file`");
    std::fs::write(&file, "\n").unwrap();
    check(&start(), Some(1), "is empty");
}

fn serve(data: &Path, password: &Path) -> Server {
    let file = password.to_str().unwrap();
    let variables =
        [("NYALA_SERVER__AUTHENTICATION", "password"), ("NYALA_SERVER__FIRST_PASSWORD_FILE", file)];
    Server::start_with(data, &variables)
}

fn ask(server: &Server, password: &str, sql: &str) -> Finished {
    let url = format!("postgres://admin:{password}@{}/nyala", server.postgres);
    try_run(&mut nyala(&["sql", "--format", "csv", "-c", sql, "--url", &url]))
}

fn check(finished: &Finished, code: Option<i32>, words: &str) {
    assert_eq!(finished.code, code, "{words}: {finished:?}");
    let text = format!("{}{}", finished.stdout, finished.stderr);
    assert!(text.contains(words), "{words}: {finished:?}");
}
