//! The server's own files, which no table may read, on any path that leads to them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;

use crate::program::{PATIENCE, Running, eventually, nyala, run};
use crate::server::{Response, send};

/// A server with its configuration, audit log and data folder in its working folder, beside files that tables may read.
struct Place {
    folder: tempfile::TempDir,
    process: Running,
    http: String,
}

impl Place {
    fn start(storage: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("data/sub")).unwrap();
        fs::create_dir_all(at("far")).unwrap();
        fs::write(at("data/a.csv"), "line\nplain\n").unwrap();
        fs::write(at("far/b.csv"), "line\nfar\n").unwrap();
        let config = format!(
            "data_dir = \"db\"\n[server]\npostgres_listen = \"127.0.0.1:0\"\nhttp_listen = \"127.0.0.1:0\"\n\
             audit_log = \"audit.csv\"\n[storage]\n{}\n[storage.gcs]\nservice_account = \"account.csv\"\n",
            storage.replace("HERE", folder.path().to_str().unwrap())
        );
        fs::write(at("nyala.csv"), config).unwrap();
        for name in ["account.csv", "passwords.csv", "token.csv"] {
            fs::write(at(name), "secret\n").unwrap();
        }
        let mut command = nyala(&["serve", "--config", "nyala.csv"]);
        command.env("PGPASSFILE", "passwords.csv").env("AWS_WEB_IDENTITY_TOKEN_FILE", "token.csv");
        let mut process = Running::start(command.current_dir(folder.path()));
        eventually("greeting", PATIENCE, || {
            assert!(process.is_running(), "{}", process.stderr());
            process.stdout().contains("Ctrl-C")
        });
        let greeting = process.stdout();
        let http = greeting.split("://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let place = Self { folder, process, http };
        place.query("CREATE LIVE TABLE known (line TEXT PRIMARY KEY)");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn try_query(&self, sql: &str) -> Response {
        let body = json!({ "sql": sql }).to_string();
        let head = "POST /api/v1/query HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: ";
        let request = format!("{head}{}\r\n\r\n{body}", body.len());
        let answer = String::from_utf8(send(self.http.parse().unwrap(), request.as_bytes())).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn query(&self, sql: &str) -> Vec<Vec<String>> {
        let response = self.try_query(sql);
        assert_eq!(response.status, 200, "{sql}: {}", response.body);
        crate::server::rows_of(&serde_json::from_str(&response.body).unwrap())
    }

    /// Tries every statement that reads files.
    fn check_refused(&self, location: &str, code: &str) {
        for sql in [
            format!("CREATE EXTERNAL TABLE t (line TEXT) STORED AS CSV LOCATION '{location}'"),
            format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'"),
            format!("COPY known FROM '{location}' (FORMAT csv)"),
        ] {
            let response = self.try_query(&sql);
            assert_ne!(response.status, 200, "{sql}: {}", response.body);
            assert!(response.body.contains(code), "{sql}: {}", response.body);
        }
    }
}

const DENIED: &str = "\"permission_denied\"";

#[test]
fn tables_of_the_servers_own_files_are_refused_to_everybody() {
    let place = Place::start("");
    let here = place.folder.path().to_str().unwrap().to_owned();
    symlink(place.at("db"), place.at("data/link")).unwrap();
    symlink(place.at("db/catalog.sqlite"), place.at("far/catalog.csv")).unwrap();
    symlink("/proc/self/cwd", place.at("far/cwd")).unwrap();
    fs::hard_link(place.at("nyala.csv"), place.at("far/hard.csv")).unwrap();
    for name in [
        "nyala.csv",
        "audit.csv",
        "account.csv",
        "passwords.csv",
        "token.csv",
        "db",
        "db/",
        "db/catalog.sqlite",
        "db/catalog.sqlite-wal",
        "db/cubes/",
        "db/stores/",
        "db/stores/main/",
        "db/tmp/",
        "./data/../db/",
        "data//../audit.csv",
        "data/link/",
        "data/link/catalog.sqlite",
        "data/link/stores/main/",
        "far/catalog.csv",
        "far/cwd/nyala.csv",
        "far/cwd/db/stores/",
        "far/hard.csv",
        "",
    ] {
        place.check_refused(&format!("{here}/{name}"), DENIED);
        place.check_refused(&format!("file://{here}/{name}"), DENIED);
    }
    place.check_refused(&format!("file://{here}/db%2Fcatalog.sqlite"), DENIED);
    place.check_refused(&format!("file://{here}/data/%2e%2e/audit%2Ecsv"), DENIED);
    for location in [
        "nyala.csv",
        "audit.csv",
        "db/",
        "/proc/self/cwd/nyala.csv",
        "/proc/self/cwd/db/catalog.sqlite",
        "/proc/self/environ",
        "/proc/self/fd/",
        "/proc/self/root/etc/passwd",
        "/dev/fd/0",
        "/sys/kernel/",
        "/",
    ] {
        place.check_refused(location, DENIED);
    }
    let id = place.process.id();
    place.check_refused(&format!("/proc/{id}/cwd/audit.csv"), DENIED);
    place.query("CREATE EXTERNAL TABLE a STORED AS CSV LOCATION 'data/a.csv'");
    assert_eq!(place.query("SELECT line FROM a"), [["plain"]]);
    let audit = fs::read_to_string(place.at("audit.csv")).unwrap();
    assert!(audit.contains("\"denied\""), "{audit}");
    for folder in ["db", "db/cubes/x", "data/link/tmp/x", "/proc/self/x"] {
        let refused = place.try_query(&format!("CREATE DISK STORE other DIR '{folder}'"));
        assert!(refused.body.contains(DENIED), "{folder}: {}", refused.body);
    }
}

/// A user with write access to a folder of tables puts links there.
#[test]
fn links_that_come_later_lead_nowhere() {
    let place = Place::start("");
    fs::write(place.at("data/sub/one.csv"), "line\none\n").unwrap();
    fs::write(place.at("data/b.csv"), "line\ntwo\n").unwrap();
    place.query("CREATE EXTERNAL TABLE folder STORED AS CSV LOCATION 'data/'");
    place.query("CREATE EXTERNAL TABLE single STORED AS CSV LOCATION 'data/sub/one.csv'");
    let folder = || place.try_query("SELECT line FROM folder ORDER BY line");
    assert!(folder().body.contains("plain") && folder().body.contains("two"), "{}", folder().body);
    symlink(place.at("far/b.csv"), place.at("data/c.csv")).unwrap();
    assert!(folder().body.contains("far"), "links to other files are followed: {}", folder().body);

    // Single files of the server are left out, and its folders are an error.
    symlink(place.at("audit.csv"), place.at("data/audit.csv")).unwrap();
    assert!(folder().status == 200 && !folder().body.contains("event"), "{}", folder().body);
    symlink(place.at("db"), place.at("data/sub/later")).unwrap();
    assert!(folder().body.contains(DENIED), "{}", folder().body);
    fs::remove_file(place.at("data/sub/later")).unwrap();
    assert_eq!(folder().status, 200);

    fs::remove_file(place.at("data/sub/one.csv")).unwrap();
    for own in ["audit.csv", "nyala.csv", "db/catalog.sqlite"] {
        symlink(place.at(own), place.at("data/sub/one.csv")).unwrap();
        let single = place.try_query("SELECT line FROM single");
        assert!(single.body.contains(DENIED), "{own}: {}", single.body);
        fs::remove_file(place.at("data/sub/one.csv")).unwrap();
    }
}

#[test]
fn an_allowed_folder_has_no_way_out() {
    let place = Place::start("allowed_locations = [\"file://HERE/data/\"]");
    let here = place.folder.path().to_str().unwrap().to_owned();
    symlink(place.at("far"), place.at("data/out")).unwrap();
    symlink(place.at("far/b.csv"), place.at("data/b.csv")).unwrap();
    symlink(place.at("data/a.csv"), place.at("data/sub/a.csv")).unwrap();
    symlink(place.at("db"), place.at("data/db")).unwrap();
    place.check_refused(&format!("{here}/data/db/"), "code");
    for location in ["far/b.csv", "data/out/b.csv", "data/b.csv", "data/out/", "data/../far/b.csv"] {
        place.check_refused(&format!("{here}/{location}"), "not allowed");
    }
    let sub = format!("CREATE EXTERNAL TABLE sub STORED AS CSV LOCATION '{here}/data/sub/'");
    place.query(&sub);
    assert_eq!(place.query("SELECT line FROM sub"), [["plain"]]);
}

/// Spaces and per cent signs are in the names of folders, too.
#[test]
fn names_are_encoded_in_urls_only() {
    let place = Place::start("");
    for (folder, location) in [
        ("a b", "data/a b/"),
        ("a%20b", "data/a%20b/"),
        ("c d", "file://HERE/data/c%20d/"),
        ("e%20f", "file://HERE/data/e%2520f/"),
        ("g+h#i?", "file://HERE/data/g+h%23i%3F/"),
    ] {
        fs::create_dir(place.at("data").join(folder)).unwrap();
        fs::write(place.at("data").join(folder).join("x.csv"), format!("line\n{folder}\n")).unwrap();
        let location = location.replace("HERE", place.folder.path().to_str().unwrap());
        place.query(&format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'"));
        assert_eq!(place.query("SELECT line FROM t"), [[folder]], "{location}");
        place.query("DROP TABLE t");
    }
}

/// `nyala sql` opens the data folder itself, and refuses the same files.
#[test]
fn statements_without_a_server_keep_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("db");
    run(nyala(&["sql", "-c", "CREATE SCHEMA s", "--data-dir"]).arg(&data));
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}/catalog.sqlite'", data.display());
    let refused = crate::program::try_run(nyala(&["sql", "-c", &sql, "--data-dir"]).arg(&data));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("files of the server itself"), "{refused:?}");
}
