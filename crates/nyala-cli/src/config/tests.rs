//! The precedence of layers, the reported origins of values, and refused settings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::path::PathBuf;

use super::layer::{Flag, keys};
use super::load::{Loaded, layered};
use super::show::show;
use crate::report;

#[test]
fn later_layers_win_and_origins_name_them() {
    let file =
        File::new("data_dir = \"from-file\"\n[server]\nmax_connections = 7\nhttp_listen = \"127.0.0.1:1\"\n");
    let environment = [("NYALA_SERVER__HTTP_LISTEN", "127.0.0.1:2"), ("NYALA_QUERY__THREADS", "3")];
    let flags = [Flag::new("server.http_listen", "--http-listen", "127.0.0.1:3".to_owned())];
    let loaded = load(Some(&file), &environment, &flags).unwrap();

    assert_eq!(loaded.config.data_dir, PathBuf::from("from-file"));
    assert_eq!(loaded.config.server.max_connections, 7);
    assert_eq!(loaded.config.server.http_listen.port(), 3);
    assert_eq!(loaded.config.query.threads, 3);

    assert_eq!(loaded.origin("query.batch_rows"), "default");
    assert_eq!(loaded.origin("data_dir"), format!("`{}`", file.0.display()));
    assert_eq!(loaded.origin("query.threads"), "environment variable `NYALA_QUERY__THREADS`");
    assert_eq!(loaded.origin("server.http_listen"), "`--http-listen`");
}

#[test]
fn texts_take_the_type_of_their_key() {
    let environment = [
        ("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", "0123456789"),
        ("NYALA_STORAGE__S3__ALLOW_HTTP", "true"),
        ("NYALA_STORAGE__ALLOWED_LOCATIONS", "file:///a/, s3://b/"),
        ("NYALA_BUILD__ZSTD_LEVEL", " 3 "),
        ("PATH", "/bin"),
        ("NYALA_LOG", "debug"),
        ("NYALA_LOG_FORMAT", "json"),
    ];
    let config = load(None, &environment, &[]).unwrap().config;
    assert_eq!(config.storage.s3.secret_access_key, "0123456789");
    assert!(config.storage.s3.allow_http);
    assert_eq!(config.storage.allowed_locations, ["file:///a/", "s3://b/"]);
    assert_eq!(config.build.zstd_level, 3);
}

#[test]
fn sizes_have_units_and_a_port_is_an_address_of_this_machine() {
    let file = File::new(
        "[query]\nmemory_limit_bytes = \"2GB\"\nspill_limit_bytes = \"1.5 TiB\"\nmax_statement_bytes = 4096\n\
         [server]\npostgres_listen = 5433\nhttp_listen = \":8090\"\n\
         [admission.groups.a]\nquery_memory_bytes = \"512MiB\"\n",
    );
    let environment = [("NYALA_CACHE__PLANS_BYTES", "16 MiB"), ("NYALA_SERVER__MAX_BODY_BYTES", "65536")];
    let config = load(Some(&file), &environment, &[]).unwrap().config;
    assert_eq!(config.query.memory_limit_bytes, 2_000_000_000);
    assert_eq!(config.query.spill_limit_bytes, 3 << 39);
    assert_eq!((config.query.max_statement_bytes, config.server.max_body_bytes), (4096, 65536));
    assert_eq!(config.admission.groups["a"].query_memory_bytes, 512 << 20);
    assert_eq!(config.cache.plans_bytes, 16 << 20);
    assert_eq!(config.server.postgres_listen.to_string(), "127.0.0.1:5433");
    assert_eq!(config.server.http_listen.to_string(), "127.0.0.1:8090");
    let environment = [("NYALA_SERVER__POSTGRES_LISTEN", "6000")];
    let config = load(None, &environment, &[]).unwrap().config;
    assert_eq!(config.server.postgres_listen.to_string(), "127.0.0.1:6000");
    for (text, words) in [
        ("[query]\nmemory_limit_bytes = \"much\"\n", "`query.memory_limit_bytes`"),
        ("[query]\nmemory_limit_bytes = -1\n", "a number of bytes such as"),
        ("[server]\npostgres_listen = 70000\n", "or a port"),
        ("[server]\npostgres_listen = \"example.org\"\n", "`server.postgres_listen`"),
    ] {
        let text = error(Some(&File::new(text)), &[]);
        assert!(text.contains(words), "{text}");
    }
    let text = error(None, &[("NYALA_QUERY__MEMORY_LIMIT_BYTES", "2XB")]);
    assert!(text.contains("must be a number of bytes such as `2147483648`, `2GB`"), "{text}");
}

#[test]
fn what_is_wrong_is_named_with_its_origin() {
    let variable = |name: &str, value: &str| error(None, &[(name, value)]);
    let text = variable("NYALA_SERVER__HTTP_LISTN", "x");
    assert!(text.contains("`NYALA_SERVER__HTTP_LISTN` sets no configuration key"), "{text}");
    assert!(text.contains("hint: did you mean `NYALA_SERVER__HTTP_LISTEN`?"), "{text}");
    let text = variable("NYALA_SERVER", "x");
    assert!(text.contains("sets no configuration key"), "{text}");
    let text = variable("NYALA_QUERY__THREADS", "many");
    assert!(text.contains("must be a whole number, but is `many`"), "{text}");
    let text = variable("NYALA_SERVER__HTTP_LISTEN", "nowhere");
    assert!(
        text.contains("`server.http_listen` in environment variable `NYALA_SERVER__HTTP_LISTEN`"),
        "{text}"
    );
    let text = variable("NYALA_BUILD__ZSTD_LEVEL", "40");
    assert!(text.contains("must be between 1 and 22, but is `40` (from environment variable"), "{text}");

    let file = File::new("[server]\nhttp_listn = 1\n");
    let text = error(Some(&file), &[]);
    let expected = format!("unknown configuration key `server.http_listn` in `{}`", file.0.display());
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains("did you mean `http_listen`?"), "{text}");
    let text = error(Some(&File::new("[server\n")), &[]);
    assert!(text.contains("cannot read"), "{text}");
    assert!(text.contains("line 1"), "{text}");
}

#[test]
fn the_shown_configuration_reads_back_and_hides_secrets() {
    let environment = [("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", "hidden"), ("NYALA_DATA_DIR", "d \"q\"")];
    let loaded = load(None, &environment, &[]).unwrap();
    let text = show(&loaded).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    assert!(text.contains("# environment variable `NYALA_DATA_DIR`"), "{text}");
    let again =
        load(Some(&File::new(&text)), &[("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", "hidden")], &[]).unwrap();
    assert_eq!(again.config, loaded.config);
}

#[test]
fn the_shown_configuration_has_groups_of_any_name() {
    let file = File::new(
        "[admission.groups.\"night shift, v1.2\"]\nslots = 3\n[admission.groups.\"ü\"]\nweight = 2\n\
         [admission.groups.\"a\\n'\\\"b\"]\nweight = 3\n",
    );
    let loaded = load(Some(&file), &[], &[]).unwrap();
    let text = show(&loaded).unwrap();
    assert_eq!(load(Some(&File::new(&text)), &[], &[]).unwrap().config, loaded.config, "{text}");
}

/// A server in a cluster that has a service of its name.
#[test]
fn variables_that_tell_of_services_are_not_taken_for_keys() {
    let service = [
        ("NYALA_SERVICE_HOST", "10.0.0.7"),
        ("NYALA_SERVICE_PORT", "5433"),
        ("NYALA_SERVICE_PORT_HTTP", "8090"),
        ("NYALA_PORT", "tcp://10.0.0.7:5433"),
        ("NYALA_PORT_5433_TCP", "tcp://10.0.0.7:5433"),
        ("NYALA_PORT_5433_TCP_PROTO", "tcp"),
        ("NYALA_PORT_5433_TCP_PORT", "5433"),
        ("NYALA_PORT_5433_TCP_ADDR", "10.0.0.7"),
        ("NYALA_READ_ONLY_SERVICE_HOST", "10.0.0.8"),
    ];
    assert_eq!(load(None, &service, &[]).unwrap().config, nyala_model::config::Config::default());
    // Mistyped keys.
    for (name, value) in [("NYALA_PORT", "5433"), ("NYALA_SERVER__PORT_HTTP", "x")] {
        assert!(error(None, &[(name, value)]).contains("sets no configuration key"), "{name}");
    }
}

#[test]
fn secrets_in_the_file_are_known() {
    let text = "[catalog]\nurl = \"postgres://nyala@db/nyala\"\n[node]\nsecret = \"\"\n";
    let file = File::new(text);
    let environment = [("NYALA_STORAGE__S3__SECRET_ACCESS_KEY", "hidden")];
    assert_eq!(load(Some(&file), &environment, &[]).unwrap().secrets_in_file(), ["catalog.url"]);
    let environment = [("NYALA_CATALOG__URL", "postgres://nyala@other/nyala")];
    assert!(load(Some(&file), &environment, &[]).unwrap().secrets_in_file().is_empty());
}

#[test]
fn every_key_can_be_set_by_a_variable() {
    let defaults = figment::Figment::from(figment::providers::Serialized::defaults(
        nyala_model::config::Config::default(),
    ));
    let keys = keys(&defaults);
    assert!(keys.contains(&"storage.s3.endpoint".to_owned()), "{keys:?}");
    assert!(keys.iter().all(|key| !key.contains("__")), "{keys:?}");
}

fn load(file: Option<&File>, environment: &[(&str, &str)], flags: &[Flag]) -> anyhow::Result<Loaded> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    layered(file.map(|file| file.0.as_path()), environment, flags)
}

fn error(file: Option<&File>, environment: &[(&str, &str)]) -> String {
    report::text(&load(file, environment, &[]).unwrap_err())
}

/// A configuration file in a folder of its own, which goes with it.
struct File(PathBuf, #[allow(dead_code)] tempfile::TempDir);

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nyala.toml");
        std::fs::write(&path, text).unwrap();
        Self(path, folder)
    }
}
