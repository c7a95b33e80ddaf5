//! Checks the rules of ARCHITECTURE.md that the compiler does not enforce.
//!
//! Each rule reads the repository as text and reports file, line and remedy. Each has a test of its own
//! that feeds it something bad: a rule that cannot fail checks nothing.

mod checks;
mod workspace;

use std::collections::BTreeMap;
use std::path::Path;

use workspace::{File, find_word, line_of, names_after};

/// Largest file that may be tracked. Data is generated, not stored.
const MAX_FILE_BYTES: u64 = 1_000_000;

/// Crates or modules, and those that each may use.
type Floors = &'static [(&'static str, &'static [&'static str])];

/// Which of our crates each crate may use.
const CRATES: Floors = &[
    ("model", &[]),
    ("fuzz", &[]),
    ("testing", &[]),
    ("patterns", &[]),
    ("catalog", &["model", "testing"]),
    ("runtime", &[]),
    ("storage", &["model", "runtime"]),
    ("sql", &["model", "patterns", "runtime", "catalog", "storage", "fuzz"]),
    ("cube", &["model", "runtime", "catalog", "storage", "sql", "fuzz"]),
    ("engine", &["model", "runtime", "catalog", "storage", "sql", "cube"]),
    ("cluster", &["model", "runtime", "cube", "engine"]),
    ("pg", &["model", "sql", "engine"]),
    ("server", &["model", "engine", "pg", "fuzz"]),
    ("client", &[]),
    ("bench", &["model", "storage", "client"]),
    (
        "cli",
        &[
            "model", "runtime", "catalog", "storage", "engine", "server", "client", "bench", "cluster",
            "fuzz", "testing",
        ],
    ),
];

/// Which modules of its crate each module may use, for the crates that have such a table.
const MODULES: &[(&str, Floors)] = &[
    (
        "sql",
        &[
            ("error", &[]),
            ("statement", &["error"]),
            ("functions", &["error", "statement"]),
            ("semantics", &["error", "functions"]),
        ],
    ),
    ("cube", &[("scan", &[]), ("live", &[]), ("cube", &["scan", "live"])]),
    ("engine", &[("access", &[]), ("session", &[]), ("query", &["access", "session"])]),
];

/// Rooms of a module, from the bottom up: each may use those before it in its list.
const ROOMS: &[(&str, &str, &[&str])] = &[(
    "engine",
    "query",
    &[
        "columns",
        "counters",
        "deadline",
        "folders",
        "history",
        "names",
        "options",
        "activity",
        "audit",
        "resources",
        "plan",
        "answer",
        "plans",
        "prepared",
        "snapshots",
        "nodes",
        "fragments",
        "engine",
        "ask",
        "session",
        "authorize",
        "execution",
        "plan_learning",
        "plan_lookup",
        "repeat",
        "place_query",
        "run_query",
        "run_fragment",
        "command",
        "files",
        "cubes",
        "live",
        "statements",
        "remote_stats",
        "stats",
        "system",
        "administer",
        "prepare",
        "text",
        "forward",
        "execute",
        "open",
    ],
)];

/// Libraries that only some crates may use: serving is for the server alone, clients of HTTP are in crates of clients.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("sqlx", &["catalog"]),
    ("tonic", &["cluster", "server"]),
    ("arrow_flight", &["cluster", "server"]),
    ("axum", &["server"]),
    ("hyper", &["server", "client", "bench"]),
    ("http_body", &["server", "client", "bench"]),
    ("http_body_util", &["server", "client", "bench", "cluster"]),
    ("datafusion_distributed", &["cluster"]),
    ("datafusion_proto", &["cluster"]),
    ("pgwire", &["server", "pg"]),
];

/// The only file with `unsafe`: a system call that no safe library has.
const UNSAFE: &str = "crates/nyala-runtime/src/threads/slice.rs";

type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[Rule] = &[
    crates_keep_to_their_floors,
    modules_keep_to_their_floors,
    rooms_keep_their_order,
    libraries_stay_where_they_belong,
    the_engine_spawns_on_its_own_threads,
    source_files_are_part_of_a_crate,
    crates_inherit_the_lints,
    panics_unwind,
    unsafe_code_is_in_one_place,
    links_lead_somewhere,
    folders_and_files_are_listed,
    meanings_are_explained,
    files_are_small,
];

#[test]
fn the_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = workspace::read(&root);
    assert!(
        files.iter().any(|file| file.path == "crates/nyala-model/src/lib.rs"),
        "the sources are not there"
    );
    let broken: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    assert!(broken.is_empty(), "{} places break a rule:\n{}", broken.len(), broken.join("\n"));
}

fn complaint(file: &File, at: usize, text: &str, what: &str) -> String {
    format!("{}:{}: {what}", file.path, line_of(text, at))
}

fn allowed_by<'a>(table: &[(&str, &'a [&'a str])], name: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed)
}

fn crates_keep_to_their_floors(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    // Only code counts: a README in a crate's folder may name crates above it.
    let is_code =
        |file: &&File| file.is("rs") && file.in_src().is_some() || file.path.ends_with("Cargo.toml");
    for file in files.iter().filter(is_code) {
        let Some(own) = file.krate() else { continue };
        let Some(allowed) = allowed_by(CRATES, own) else {
            let what = format!("crate `{own}` has no floor; add it to the table here and in ARCHITECTURE.md");
            broken.push(complaint(file, 0, "", &what));
            continue;
        };
        let code = file.code();
        for (other, _) in CRATES.iter().filter(|(other, _)| *other != own && !allowed.contains(other)) {
            for name in [format!("nyala_{other}"), format!("nyala-{other}")] {
                let what = format!("crate `{own}` must not use `{other}`, which is not below it");
                broken
                    .extend(find_word(&code, &name).into_iter().map(|at| complaint(file, at, &code, &what)));
            }
        }
    }
    broken
}

fn modules_keep_to_their_floors(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (krate, modules) in MODULES {
        for file in files.iter().filter(|file| file.krate() == Some(krate) && file.is("rs")) {
            let Some(path) = file.in_src().filter(|path| *path != "lib.rs") else { continue };
            broken.extend(arrows_up(file, path, modules));
        }
    }
    broken
}

fn rooms_keep_their_order(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for (krate, module, rooms) in ROOMS {
        let floors: Vec<(&str, &[&str])> =
            rooms.iter().enumerate().map(|(at, room)| (*room, rooms.get(..at).unwrap_or_default())).collect();
        for file in files.iter().filter(|file| file.krate() == Some(krate) && file.is("rs")) {
            let path = file.in_src().and_then(|path| path.strip_prefix(module)?.strip_prefix('/'));
            let Some(path) = path.filter(|path| *path != "mod.rs") else { continue };
            broken.extend(arrows_up_from(file, path, &format!("crate::{module}"), &floors));
        }
    }
    broken
}

/// The modules above its floor that a file at `path` within its crate uses.
fn arrows_up(file: &File, path: &str, modules: Floors) -> Vec<String> {
    arrows_up_from(file, path, "crate", modules)
}

/// The modules of `root` above its floor that a file uses; the file is at `path`.
fn arrows_up_from(file: &File, path: &str, root: &str, modules: &[(&str, &[&str])]) -> Vec<String> {
    let own = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    let Some(allowed) = allowed_by(modules, own) else {
        let what = format!("module `{own}` has no floor; add it to the table here and in ARCHITECTURE.md");
        return vec![complaint(file, 0, "", &what)];
    };
    let (code, mut broken) = (file.code(), Vec::new());
    for prefix in [root, &to_crate_root(path)] {
        // The glob of a test module, `use super::*`, means the file it stands in.
        let names = names_after(&code, prefix)
            .into_iter()
            .filter(|(_, name)| !name.is_empty() || prefix == root)
            // The allocator of the crate's unit tests, which is no module.
            .filter(|(_, name)| *name != "MEMORY");
        for (at, name) in names.filter(|(_, name)| *name != own && !allowed.contains(name)) {
            let what = format!("module `{own}` must not use `{prefix}::{name}`, which is not below it");
            broken.push(complaint(file, at, &code, &what));
        }
    }
    broken
}

/// The `super::super` by which a file reaches the crate's root.
fn to_crate_root(path: &str) -> String {
    let depth = path.trim_end_matches("/mod.rs").split('/').count();
    vec!["super"; depth].join("::")
}

fn libraries_stay_where_they_belong(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.in_src().is_some() || file.path.ends_with("Cargo.toml")) {
        let Some(own) = file.krate() else { continue };
        let code = file.code();
        for (library, homes) in ONLY_IN.iter().filter(|(_, homes)| !homes.contains(&own)) {
            let what = format!("`{library}` is for crate `{}` only", homes.join("`, `"));
            let places = if file.is("toml") {
                let name = library.replace('_', "-");
                let dependency =
                    |at: &usize| code[..*at].ends_with('\n') && !code[at + name.len()..].starts_with('-');
                find_word(&code, &name).into_iter().filter(dependency).collect()
            } else {
                names_after(&code, library).into_iter().map(|(at, _)| at).collect::<Vec<_>>()
            };
            broken.extend(places.into_iter().map(|at| complaint(file, at, &code, &what)));
        }
    }
    broken
}

fn the_engine_spawns_on_its_own_threads(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    let engine = |file: &&File| matches!(file.krate(), Some("sql" | "cube" | "engine"));
    for file in files.iter().filter(engine).filter(|file| file.in_src().is_some()) {
        let code = file.code();
        for call in ["tokio::spawn", "task::spawn"] {
            let what = "a task of the engine runs on the query threads: use their handle, or `SpawnedTask`";
            broken.extend(find_word(&code, call).into_iter().map(|at| complaint(file, at, &code, what)));
        }
    }
    broken
}

fn source_files_are_part_of_a_crate(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.is("rs") && file.path.starts_with("crates/")) {
        let module = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let Some((folder, name)) = module.rsplit_once('/') else { continue };
        let in_tree = file.in_src().is_some() || file.path.contains("/tests/it/");
        if !in_tree || ["main", "lib"].contains(&name) || folder.ends_with("src/bin") {
            continue;
        }
        let declared = files.iter().filter(|other| is_parent(&other.path, folder)).any(|parent| {
            parent.code().lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")))
        });
        let pointed_at = files
            .iter()
            .filter(|other| other.path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder))
            .any(|sibling| sibling.text.contains(&format!("#[path = \"{name}.rs\"]")));
        if !declared && !pointed_at {
            let what = format!("no `mod {name};` leads here: add one or delete the file");
            broken.push(complaint(file, 0, "", &what));
        }
    }
    broken
}

/// Whether the file at `path` declares the modules that lie in `folder`.
fn is_parent(path: &str, folder: &str) -> bool {
    ["/mod.rs", ".rs", "/lib.rs", "/main.rs"].iter().any(|end| path.strip_suffix(end) == Some(folder))
}

fn crates_inherit_the_lints(files: &[File]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.krate().is_some() && file.path.ends_with("/Cargo.toml"));
    let inherits = |file: &File| {
        let section = file.text.split("\n[lints]\n").nth(1).unwrap_or_default();
        section.lines().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true")
    };
    let what = "add `[lints]` with `workspace = true`, or no lint of the workspace holds here";
    manifests.filter(|file| !inherits(file)).map(|file| complaint(file, 0, "", what)).collect()
}

/// A panic must end its statement, and not the process with all others.
fn panics_unwind(files: &[File]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.path.ends_with(".toml"));
    let what = "a panic would end the process, with the statements of all clients";
    let aborting = manifests.filter_map(|file| Some((file, file.text.find("panic = \"abort\"")?)));
    aborting.map(|(file, at)| complaint(file, at, &file.text, what)).collect()
}

fn unsafe_code_is_in_one_place(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.in_src().is_some() && file.path != UNSAFE) {
        let code = file.code();
        let what = "look for a safe library: only one system call is made without one";
        // `unsafe-inline` is a word of web pages.
        let places = find_word(&code, "unsafe").into_iter().filter(|at| !code[*at..].starts_with("unsafe-"));
        broken.extend(places.map(|at| complaint(file, at, &code, what)));
    }
    broken
}

fn folders_and_files_are_listed(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/design/folders.md";
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let sources = files.iter().filter(|file| file.is("rs") && file.in_src().is_some());
    for (folder, name) in sources.filter_map(|file| file.path.trim_end_matches(".rs").rsplit_once('/')) {
        if folder.contains("/tests") || name == "tests" || name.ends_with("_tests") {
            continue;
        }
        let names = folders.entry(folder).or_default();
        if !["mod", "lib", "main"].contains(&name) {
            names.push(name);
        }
    }
    let mut broken = Vec::new();
    for (folder, names) in folders {
        let (link, end) = (format!("](../../{folder}) |"), format!("| {} |", names.join(", ")));
        if !page.text.lines().any(|line| line.contains(&link) && line.ends_with(end.trim_start())) {
            broken.push(format!("{PAGE}:1: the line for `{folder}` must end with `{end}`"));
        }
    }
    broken
}

/// Each meaning has a line in the reference, under the name that it gives itself.
fn meanings_are_explained(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/reference/semantics.md";
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/nyala-sql/src/semantics/")) {
        let named = file.text.split("fn name(&self) -> &'static str {").skip(1);
        for name in named.filter_map(|rest| rest.split('"').nth(1)) {
            if !page.text.contains(&format!("| `{name}` |")) {
                broken.push(format!("{}:1: `{name}` has no line in {PAGE}", file.path));
            }
        }
    }
    broken
}

fn links_lead_somewhere(files: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        let mut fenced = false;
        for (number, line) in file.text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            for target in links(line).into_iter().filter(|_| !fenced) {
                if !exists(files, &resolve(&file.path, target)) {
                    broken.push(format!("{}:{}: link to `{target}` leads nowhere", file.path, number + 1));
                }
            }
        }
    }
    broken
}

/// Targets of the links in a line that are files of the repository.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    files.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty()).collect()
}

/// The path from the root of `target`, a link in the file at `path`.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether the repository has a file or a folder of this path.
fn exists(files: &[File], path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty() || files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

fn files_are_small(files: &[File]) -> Vec<String> {
    let large = files.iter().filter(|file| file.bytes > MAX_FILE_BYTES);
    large
        .map(|file| {
            let what =
                format!("{} bytes are more than {MAX_FILE_BYTES}: generate the data instead", file.bytes);
            complaint(file, 0, "", &what)
        })
        .collect()
}
