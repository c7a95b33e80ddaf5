//! `nyala doctor`: a place where a server would work, and each reason why one would not.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nyala_storage::data_dir::DataDir;
use nyala_testing::PostgresServer;
use serde_json::Value;
use tempfile::TempDir;

use crate::encryption::Keys;
use crate::program::{Finished, nyala, run, try_run};
use crate::s3::{BUCKET, S3};
use crate::server::Server;

#[test]
fn nothing_is_made_where_all_is_well() {
    let place = Place::new();
    let finished = place.doctor(&[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for subject in ["configuration", "logins", "encryption", "data folder", "disk space", "memory", "clock"] {
        assert!(finished.stdout.contains(subject), "{subject}: {finished:?}");
    }
    assert!(finished.stdout.contains("is missing, and will be made"), "{finished:?}");
    assert_eq!(place.names(), Vec::<String>::new());

    let server = Server::start(&place.data());
    drop(server);
    let before = place.names();
    assert!(before.contains(&"data".to_owned()), "{before:?}");
    let report = place.report(&[]);
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(state(&report, "data folder"), "ok", "{report}");
    assert_eq!(place.names(), before);
}

#[test]
fn a_configuration_that_cannot_be_loaded_is_the_only_finding() {
    let place = Place::new();
    let report = place.report(&[("NYALA_SERVER__HTTP_LISTN", "x")]);
    assert_eq!(report["checks"].as_array().unwrap().len(), 1, "{report}");
    place.fails(&[("NYALA_SERVER__HTTP_LISTN", "x")], "configuration", "`NYALA_SERVER__HTTP_LISTN`");
    assert_eq!(report["checks"][0]["next"], "did you mean `NYALA_SERVER__HTTP_LISTEN`?");
}

#[test]
fn secrets_that_all_users_may_read_are_told() {
    let place = Place::new();
    let file = place.write("nyala.toml", "[node]\nsecret = \"0123456789\"\n");
    let judge = |mode: u32| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let report = place.report(&[("NYALA_CONFIG", file.as_str())]);
        find(&report, "secrets").map(|check| check["found"].as_str().unwrap().to_owned())
    };
    assert!(judge(0o644).is_some_and(|found| found.contains("`node.secret`")));
    assert_eq!(judge(0o600), None);
}

#[test]
fn a_data_folder_that_cannot_be_used_fails() {
    let place = Place::new();
    let server = Server::start(&place.data());
    let holder = format!("in use by `nyala serve` (process {})", server.process.id());
    place.fails(&[], "data folder", &holder);
    drop(server);
    let file = place.write("file", "");
    place.fails(&[("NYALA_DATA_DIR", &format!("{file}/data"))], "data folder", "Not a directory");
    fs::remove_file(place.data().join("catalog.sqlite")).unwrap();
    fs::create_dir_all(place.data().join("cubes/1")).unwrap();
    place.fails(&[], "data folder", "nyala catalog restore");
}

#[test]
fn a_data_folder_of_another_user_is_told() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    if std::os::unix::fs::chown(place.data(), Some(65534), None).is_err() {
        // Only root may give folders away, and only root can write to those of others.
        return;
    }
    let report = place.report(&[]);
    assert_eq!(state(&report, "data folder"), "warning", "{report}");
    assert!(found(&report, "data folder").contains("65534"), "{report}");
}

#[test]
fn addresses_that_cannot_be_had_fail() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.fails(&[("NYALA_SERVER__HTTP_LISTEN", &address)], "HTTP", "the value of `server.http_listen`");
    place.fails(&[("NYALA_SERVER__POSTGRES_LISTEN", &address)], "PostgreSQL", "`server.postgres_listen`");
    place.fails(&[("NYALA_SERVER__FLIGHT_LISTEN", &address)], "Flight SQL", "`server.flight_listen`");
    place.fails(&[("NYALA_SERVER__KYLIN_LISTEN", &address)], "Kylin's API", "`server.kylin_listen`");
    drop(taken);
    let same = [
        ("NYALA_SERVER__HTTP_LISTEN", address.as_str()),
        ("NYALA_SERVER__POSTGRES_LISTEN", address.as_str()),
    ];
    place.fails(&same, "HTTP", "cannot listen");
    place.fails(
        &[("NYALA_SERVER__HTTP_LISTEN", "0.0.0.0:0")],
        "logins",
        "whoever reaches it could do everything",
    );
    place.fails(&[("NYALA_SERVER__POSTGRES_SOCKET", "/no/such/folder")], "local socket", "/no/such/folder");
    let report = place.report(&[("NYALA_SERVER__POSTGRES_SOCKET", place.folder.path().to_str().unwrap())]);
    assert_eq!(state(&report, "local socket"), "ok", "{report}");
    assert_eq!(place.names(), Vec::<String>::new());
}

/// A server locks its data folder first and listens later: if a check had its address just then, it would stop. An address
/// that is taken shows whether a check has tried it.
#[test]
fn no_address_is_taken_while_a_server_may_be_starting() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [
        ("NYALA_SERVER__HTTP_LISTEN", address.as_str()),
        ("NYALA_CATALOG__URL", "postgres://nyala@127.0.0.1:1/nyala"),
        ("NYALA_NODE__LISTEN", address.as_str()),
        ("NYALA_NODE__SECRET", "0123456789abcdef0123456789abcdef"),
    ];
    place.fails(&variables, "HTTP", "cannot listen");
    place.fails(&variables, "other nodes", &address);
    let _starting = DataDir::lock(&place.data(), "`nyala serve` (process 1)").unwrap();
    let report = place.failed_report(&variables);
    assert!(found(&report, "data folder").contains("in use by `nyala serve` (process 1)"), "{report}");
    for subject in ["addresses", "other nodes"] {
        assert_eq!(state(&report, subject), "warning", "{report}");
        assert!(found(&report, subject).contains("not tried"), "{report}");
    }
    for subject in ["HTTP", "PostgreSQL"] {
        assert!(find(&report, subject).is_none(), "{report}");
    }
}

#[test]
fn files_of_encryption_have_to_fit() {
    let (place, keys, others) = (Place::new(), Keys::make(), Keys::make());
    let with = |certificate: &Path, key: &Path| {
        [
            ("NYALA_SERVER__TLS__CERTIFICATE", certificate.to_str().unwrap().to_owned()),
            ("NYALA_SERVER__TLS__KEY", key.to_str().unwrap().to_owned()),
        ]
    };
    let report = |variables: &[(&str, String)]| {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        place.report(&variables)
    };
    let good = report(&with(&keys.certificate, &keys.key));
    // The test's certificate was made just now, for two days.
    assert_eq!(state(&good, "encryption"), "ok", "{good}");
    assert!(found(&good, "encryption").contains("47 more hours"), "{good}");
    let mixed = report(&with(&keys.certificate, &others.key));
    assert_eq!(state(&mixed, "encryption"), "failed", "{mixed}");
    let absent = report(&with(Path::new("/absent.pem"), &keys.key));
    assert!(found(&absent, "encryption").contains("`/absent.pem`"), "{absent}");
    for (mode, is_told) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&keys.key, fs::Permissions::from_mode(mode)).unwrap();
        let report = report(&with(&keys.certificate, &keys.key));
        assert_eq!(find(&report, "private key").is_some(), is_told, "{report}");
    }
}

#[test]
fn files_that_the_server_needs_are_tried() {
    let place = Place::new();
    place.fails(&[("NYALA_SERVER__AUDIT_LOG", "/no/such/audit.log")], "audit log", "/no/such/audit.log");
    let log = place.folder.path().join("audit.log");
    let report = place.report(&[("NYALA_SERVER__AUDIT_LOG", log.to_str().unwrap())]);
    assert_eq!(state(&report, "audit log"), "ok", "{report}");
    assert!(!log.exists());
    let absent = [("NYALA_SERVER__FIRST_PASSWORD_FILE", "/absent")];
    place.fails(&absent, "first user", "the value of `server.first_password_file`");
    let password = place.write("password", "secret\n");
    for (mode, expected) in [(0o640, "ok"), (0o644, "warning")] {
        fs::set_permissions(&password, fs::Permissions::from_mode(mode)).unwrap();
        let report = place.report(&[("NYALA_SERVER__FIRST_PASSWORD_FILE", &password)]);
        assert_eq!(state(&report, "first user"), expected, "{report}");
        assert!(!report.to_string().contains("secret\""), "{report}");
    }
    // A server with a catalog may have a superuser already.
    drop(Server::start(&place.data()));
    let report = place.report(&absent);
    assert_eq!(state(&report, "first user"), "warning", "{report}");
}

#[test]
fn limits_of_the_system_are_compared() {
    let place = Place::new();
    place.fails(&[("NYALA_QUERY__MEMORY_LIMIT_BYTES", "1000TiB")], "memory", "1000.0 TiB");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 300; exec env -i \"$@\"", "sh"]);
    command.args(PORTS.map(|(name, value)| format!("{name}={value}"))).arg(env!("CARGO_BIN_EXE_nyala"));
    command.args(["doctor", "--json", "--data-dir"]).arg(place.data()).current_dir(place.folder.path());
    let report: Value = serde_json::from_str(&run(&mut command)).unwrap();
    assert_eq!(state(&report, "open files"), "warning", "{report}");
    assert!(found(&report, "open files").contains("at most 300"), "{report}");
}

#[test]
fn a_bucket_is_written_read_and_left_as_it_was() {
    let (place, s3) = (Place::new(), S3::start());
    let data = format!("s3://{BUCKET}/nyala/");
    let mut variables = s3.variables().to_vec();
    variables.push(("NYALA_STORAGE__DATA", &data));
    let report = place.report(&variables);
    assert_eq!(state(&report, "cuboids"), "ok", "{report}");
    assert_eq!(found(&report, "clock"), "as that of the bucket", "{report}");

    // The place is free still: a server takes it, and then no other data folder may have it.
    drop(Server::start_with(&place.data(), &variables));
    assert_eq!(state(&place.report(&variables), "cuboids"), "ok");
    let other = Place::new();
    other.fails(&variables, "cuboids", "has the cuboids of another data folder");

    let with = |more: &[(&'static str, &'static str)]| [&variables[..], more].concat();
    let absent = with(&[("NYALA_STORAGE__DATA", "s3://no-such-bucket/x/")]);
    place.fails(&absent, "cuboids", "`no-such-bucket` does not exist");
    let local = with(&[("NYALA_STORAGE__DATA", "/tmp")]);
    place.fails(&local, "cuboids", "cuboids lie in the data folder, or in a bucket");
    let endpoint = ("NYALA_STORAGE__S3__ENDPOINT", "http://127.0.0.1:1");
    place.fails(&with(&[endpoint, ("NYALA_STORAGE__RETRY_FOR_MS", "0")]), "cuboids", "no answer from");
}

#[test]
fn a_shared_catalog_is_looked_at_and_not_made() {
    let (place, s3, postgres) = (Place::new(), S3::start(), PostgresServer::start());
    let (url, data) = (postgres.create_database(), format!("s3://{BUCKET}/nyala/"));
    let mut variables = s3.variables().to_vec();
    variables.extend([("NYALA_CATALOG__URL", url.as_str()), ("NYALA_STORAGE__DATA", data.as_str())]);
    for _ in 0..2 {
        let report = place.report(&variables);
        assert_eq!(state(&report, "catalog"), "ok", "{report}");
        assert!(found(&report, "catalog").contains("the first server makes the tables"), "{report}");
    }
    drop(Server::start_with(&place.data(), &variables));
    let report = place.report(&variables);
    assert!(found(&report, "catalog").contains("has a catalog"), "{report}");
    assert_eq!(state(&report, "cuboids"), "ok", "{report}");
    assert_eq!(found(&report, "clock"), "as that of PostgreSQL and that of the bucket", "{report}");

    let alone = [("NYALA_CATALOG__URL", url.as_str())];
    place.fails(&alone, "catalog", "`storage.data` is not");
    assert!(postgres.query("test0", "CREATE ROLE guest LOGIN"));
    let guest = url.replace("nyala@", "guest@");
    let variables = [&variables[..], &[("NYALA_CATALOG__URL", guest.as_str())]].concat();
    place.fails(&variables, "catalog", "permission denied");
    postgres.stop();
    place.fails(&variables, "catalog", "the catalog in PostgreSQL at");
}

#[test]
fn a_node_among_others_needs_a_secret_and_an_address() {
    let place = Place::new();
    let secret = "0123456789abcdef0123456789abcdef";
    let listen = [("NYALA_NODE__LISTEN", "127.0.0.1:0")];
    place.fails(&listen, "other nodes", "shares its catalog with no other");
    // The database does not exist: only the findings about the node matter here.
    let shared = [&listen[..], &[("NYALA_CATALOG__URL", "postgres://nyala@127.0.0.1:1/nyala")]].concat();
    place.fails(&shared, "other nodes", "`node.secret` has 0 bytes");
    let with = |more: &[(&'static str, &'static str)]| {
        [&shared[..], &[("NYALA_NODE__SECRET", secret)], more].concat()
    };
    assert_eq!(state(&place.failed_report(&with(&[])), "other nodes"), "ok");
    let everywhere = with(&[("NYALA_NODE__LISTEN", "0.0.0.0:0")]);
    place.fails(&everywhere, "other nodes", "set `node.address`");
    let told = with(&[("NYALA_NODE__ADDRESS", "127.0.0.1:1")]);
    let report = place.failed_report(&told);
    assert_eq!(state(&report, "other nodes"), "warning", "{report}");
    assert!(found(&report, "other nodes").contains("`127.0.0.1:1`"), "{report}");
}

/// Addresses whose port the system chooses, so that they are always free.
const PORTS: [(&str, &str); 2] =
    [("NYALA_SERVER__HTTP_LISTEN", "127.0.0.1:0"), ("NYALA_SERVER__POSTGRES_LISTEN", "127.0.0.1:0")];

/// A folder in which the data folder `data` may be.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// All files and folders of the place.
    fn names(&self) -> Vec<String> {
        let listed = run(Command::new("find").args([".", "-mindepth", "1"]).current_dir(self.folder.path()));
        let mut names: Vec<_> = listed.lines().map(|name| name.trim_start_matches("./").to_owned()).collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = nyala(&["doctor"]);
        command.args(arguments).env("NYALA_DATA_DIR", self.data()).envs(PORTS);
        command.envs(variables.iter().copied());
        command
    }

    fn doctor(&self, variables: &[(&str, &str)]) -> Finished {
        try_run(&mut self.command(&[], variables))
    }

    /// The findings as JSON; the exit code agrees with them.
    fn report(&self, variables: &[(&str, &str)]) -> Value {
        let finished = try_run(&mut self.command(&["--json"], variables));
        let report: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
        assert_eq!(finished.code, Some(i32::from(report["ok"] == false)), "{finished:?}");
        report
    }

    fn failed_report(&self, variables: &[(&str, &str)]) -> Value {
        let report = self.report(variables);
        assert_eq!(report["ok"], false, "{report}");
        report
    }

    /// Checks that a check fails with these words.
    fn fails(&self, variables: &[(&str, &str)], subject: &str, words: &str) {
        let report = self.failed_report(variables);
        assert_eq!(state(&report, subject), "failed", "{subject}: {report}");
        let next = find(&report, subject).unwrap()["next"].to_string();
        assert!(found(&report, subject).contains(words) || next.contains(words), "{words}: {report}");
    }
}

fn find<'a>(report: &'a Value, subject: &str) -> Option<&'a Value> {
    report["checks"].as_array().unwrap().iter().find(|check| check["subject"] == subject)
}

fn state(report: &Value, subject: &str) -> String {
    field(report, subject, "state")
}

fn found(report: &Value, subject: &str) -> String {
    field(report, subject, "found")
}

fn field(report: &Value, subject: &str, field: &str) -> String {
    let check = find(report, subject).unwrap_or_else(|| panic!("{subject} is not checked: {report}"));
    check[field].as_str().unwrap().to_owned()
}
