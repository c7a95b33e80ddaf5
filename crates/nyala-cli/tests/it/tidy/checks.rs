//! Each rule lets the good pass and finds the bad.

use super::*;

/// Checks that the rule finds nothing wrong with `good`, and in `bad` one place, about which it says `complaint`.
fn check(rule: Rule, good: &[(&str, &str)], bad: &[(&str, &str)], complaint: &str) {
    let files = |texts: &[(&str, &str)]| -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
            bytes: text.len() as u64,
        };
        texts.iter().map(file).collect()
    };
    assert_eq!(rule(&files(good)), Vec::<String>::new());
    let found = rule(&files(bad));
    assert!(found.len() == 1 && found[0].starts_with(complaint), "expected {complaint}\nfound {found:?}");
}

#[test]
fn a_crate_cannot_use_what_is_above_it() {
    let rule = crates_keep_to_their_floors;
    let good =
        [("crates/nyala-engine/src/a.rs", "// nyala_server\nuse nyala_model::X; let nyala_server_port = 1;")];
    check(
        rule,
        &good,
        &[("crates/nyala-engine/src/a.rs", "\nuse nyala_server::X;")],
        "crates/nyala-engine/src/a.rs:2:",
    );
    check(
        rule,
        &[],
        &[("crates/nyala-model/Cargo.toml", "nyala-catalog.workspace = true")],
        "crates/nyala-model/",
    );
    check(
        rule,
        &[],
        &[("crates/nyala-odd/src/lib.rs", "")],
        "crates/nyala-odd/src/lib.rs:1: crate `odd` has no floor",
    );
}

#[test]
fn a_module_cannot_use_what_is_above_it() {
    let rule = modules_keep_to_their_floors;
    let good = [
        ("crates/nyala-engine/src/lib.rs", "pub use crate::query::Engine;"),
        ("crates/nyala-sql/src/error.rs", "mod tests {\n    use super::*;\n}"),
        ("crates/nyala-cube/src/cube/build/run.rs", "use super::query; use crate::{scan::X, cube::Y};"),
    ];
    let path = "crates/nyala-cube/src/live/scan/run.rs";
    check(rule, &good, &[(path, "use crate::cube::X;")], path);
    check(rule, &good, &[(path, "use crate::*;")], path);
    check(rule, &good, &[(path, "use crate::{\n    live::{A, B},\n    cube,\n};")], path);
    check(rule, &good, &[(path, "use super::super::super::cube::X;")], path);
    check(
        rule,
        &good,
        &[("crates/nyala-cube/src/scan/mod.rs", "\nuse super::cube;")],
        "crates/nyala-cube/src/scan/mod.rs:2:",
    );
    check(
        rule,
        &good,
        &[("crates/nyala-engine/src/odd.rs", "")],
        "crates/nyala-engine/src/odd.rs:1: module `odd`",
    );
}

#[test]
fn a_room_cannot_use_what_comes_after_it() {
    let rule = rooms_keep_their_order;
    let good = [
        (
            "crates/nyala-engine/src/query/live/write.rs",
            "use crate::query::answer::Answer; use super::values;",
        ),
        ("crates/nyala-engine/src/query/mod.rs", "pub use live::Ingest;"),
        ("crates/nyala-engine/src/query/text.rs", "use super::prepare;"),
        ("crates/nyala-engine/src/session/base.rs", ""),
    ];
    let path = "crates/nyala-engine/src/query/answer/rows.rs";
    check(rule, &good, &[(path, "\nuse crate::query::engine::Engine;")], &format!("{path}:2:"));
    check(rule, &good, &[(path, "use super::super::live;")], path);
    let path = "crates/nyala-engine/src/query/deadline.rs";
    check(rule, &good, &[(path, "use super::session::Session;")], path);
    let path = "crates/nyala-engine/src/query/odd.rs";
    check(rule, &good, &[(path, "")], &format!("{path}:1: module `odd`"));
}

#[test]
fn a_library_cannot_leave_its_crate() {
    let rule = libraries_stay_where_they_belong;
    let good = [
        ("crates/nyala-catalog/src/a.rs", "use sqlx::Row;"),
        ("crates/nyala-cli/src/a.rs", "use nyala_server::pgwire::PgCatalog;"),
        ("crates/nyala-cli/Cargo.toml", "\nhyper-util = \"1\"\n"),
    ];
    check(rule, &good, &[("crates/nyala-engine/src/a.rs", "use sqlx::Row;")], "crates/nyala-engine/");
    check(
        rule,
        &good,
        &[("crates/nyala-cli/src/a.rs", "fn f(b: axum::body::Body) {}")],
        "crates/nyala-cli/src/a.rs:1:",
    );
    check(
        rule,
        &good,
        &[("crates/nyala-cli/Cargo.toml", "[dependencies]\naxum.workspace = true")],
        "crates/nyala-cli/Cargo.toml:2:",
    );
}

#[test]
fn the_engine_cannot_spawn_anywhere() {
    let rule = the_engine_spawns_on_its_own_threads;
    let path = "crates/nyala-engine/src/a.rs";
    let good =
        [(path, "handle.spawn(x); SpawnedTask::spawn(y);"), ("crates/nyala-cli/src/a.rs", "tokio::spawn(x)")];
    check(rule, &good, &[(path, "\n\ntokio::spawn(x)")], "crates/nyala-engine/src/a.rs:3:");
    check(rule, &good, &[(path, "tokio::task::spawn(x)")], path);
}

#[test]
fn a_source_file_cannot_lie_about_unused() {
    let rule = source_files_are_part_of_a_crate;
    let good = [
        ("crates/nyala-x/src/lib.rs", "pub mod a;\nmod b;"),
        ("crates/nyala-x/src/a/mod.rs", "mod c;\n#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod tests;"),
        ("crates/nyala-x/src/a/c.rs", ""),
        ("crates/nyala-x/src/a/c_tests.rs", ""),
        ("crates/nyala-x/src/b.rs", "mod tests;"),
        ("crates/nyala-x/src/b/tests.rs", ""),
    ];
    let bad = [("crates/nyala-x/src/lib.rs", "// mod old;"), ("crates/nyala-x/src/old.rs", "")];
    check(rule, &good, &bad, "crates/nyala-x/src/old.rs:1:");
}

#[test]
fn a_crate_cannot_escape_the_lints() {
    let path = "crates/nyala-x/Cargo.toml";
    let good = [(path, "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n")];
    let bad = [(path, "[package]\nname = \"x\"\n\n[lints]\n\n[dependencies]\nworkspace = true\n")];
    check(crates_inherit_the_lints, &good, &bad, path);
}

#[test]
fn unsafe_code_cannot_spread() {
    let good = [(UNSAFE, "unsafe { call() }"), ("crates/nyala-x/src/a.rs", "// unsafe")];
    let bad = [("crates/nyala-x/src/a.rs", "\nunsafe { call() }")];
    check(unsafe_code_is_in_one_place, &good, &bad, "crates/nyala-x/src/a.rs:2:");
}

#[test]
fn a_link_cannot_lead_nowhere() {
    let good = [
        ("README.md", "[a](docs/a.md#top) [b](https://example.org/x) [c](docs/) [d](#e)\n```\n[f](g)\n```"),
        ("docs/a.md", "[r](../README.md)"),
    ];
    check(
        links_lead_somewhere,
        &good,
        &[("docs/a.md", "\n[gone](gone.md)")],
        "docs/a.md:2: link to `gone.md`",
    );
}

#[test]
fn a_large_file_cannot_be_added() {
    let large = "x".repeat(1_000_001);
    check(files_are_small, &[("a.bin", "x")], &[("a.bin", &large)], "a.bin:1:");
}

#[test]
fn a_file_cannot_be_left_out_of_the_page() {
    let rule = folders_and_files_are_listed;
    let page = ("docs/design/folders.md", "| [`src`](../../crates/nyala-model/src) | words | a, b |");
    let good = [
        page,
        ("crates/nyala-model/src/a.rs", ""),
        ("crates/nyala-model/src/b.rs", ""),
        ("crates/nyala-model/src/b_tests.rs", ""),
        ("crates/nyala-model/src/lib.rs", ""),
        ("crates/nyala-model/src/tests/a.rs", ""),
    ];
    let complaint =
        "docs/design/folders.md:1: the line for `crates/nyala-model/src` must end with `| a, c |`";
    let bad = [page, ("crates/nyala-model/src/a.rs", ""), ("crates/nyala-model/src/c.rs", "")];
    check(rule, &good, &bad, complaint);
}
