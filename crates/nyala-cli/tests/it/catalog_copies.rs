//! A data folder with a lost or damaged catalog: it is refused, and `nyala catalog` restores it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::flip;
use crate::program::{Finished, PATIENCE, nyala, run, try_run};
use crate::server::Server;

fn serve(data: &Path) -> Finished {
    let mut command = nyala(&["serve", "--postgres-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    try_run(command.arg("--data-dir").arg(data))
}

fn catalog(data: &Path, arguments: &[&str]) -> Command {
    let mut command = nyala(&[&["catalog"], arguments].concat());
    command.arg("--data-dir").arg(data);
    command
}

/// Runs statements and stops, which makes a copy of the catalog.
fn statements(data: &Path, statements: &[&str]) {
    let mut server = Server::start(data);
    for statement in statements {
        server.query(statement);
    }
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
}

fn copies(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("catalog-backups")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A folder with a live table of ten rows.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    statements(
        folder.path(),
        &[
            "CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)",
            "INSERT INTO t SELECT value, value FROM generate_series(1, 10) AS s (value)",
        ],
    );
    folder
}

const SUM: &str = "SELECT count(*), sum(n) FROM t";

#[test]
fn a_lost_or_damaged_catalog_is_refused_and_restored() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("missing", |file| std::fs::remove_file(file).unwrap()),
        ("empty", |file| std::fs::write(file, "").unwrap()),
        ("cut", |file| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("of zeros", |file| std::fs::write(file, vec![0; 8192]).unwrap()),
        ("with a flipped bit", |file| {
            let bytes = std::fs::read(file).unwrap();
            let at = bytes.windows(8).rposition(|text| text == b"CREATE L").unwrap();
            flip(file, at * 8 + 1);
        }),
    ];
    let folder = folder();
    let file = folder.path().join("catalog.sqlite");
    for (what, damage) in damages {
        damage(&file);
        let refused = serve(folder.path());
        assert_eq!(refused.code, Some(1), "{what}: {}", refused.stdout);
        for words in ["catalog.sqlite`", "nyala catalog restore"] {
            assert!(refused.stderr.contains(words), "{what}: {}", refused.stderr);
        }
        let told = run(&mut catalog(folder.path(), &["restore"]));
        assert!(told.contains("1 tables, 0 cubes, 1 disk stores"), "{what}: {told}");
        let server = Server::start(folder.path());
        assert_eq!(server.query(SUM), [["10", "55"]], "{what}");
        drop(server);
    }
    let listed = run(&mut catalog(folder.path(), &["backups"]));
    assert!(listed.lines().all(|line| line.contains("  whole  ")), "{listed}");
}

#[test]
fn a_whole_catalog_is_not_replaced_without_being_told_so() {
    let folder = folder();
    let refused = try_run(&mut catalog(folder.path(), &["restore"]));
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("is whole") && refused.stderr.contains("--from FILE"),
        "{}",
        refused.stderr
    );
    let copy = copies(folder.path()).remove(0);
    statements(folder.path(), &["DROP TABLE t"]);
    run(&mut catalog(folder.path(), &["restore", "--from", copy.to_str().unwrap()]));
    // The table is in the catalog again. Its rows were removed with it: a query fails, or gives the right sum.
    let answer = Server::start(folder.path()).try_query(SUM);
    assert!(
        answer.status != 200 || answer.body.contains("[10,55]") || answer.body.contains("[\"10\",\"55\"]")
    );
    let nowhere = try_run(&mut catalog(&folder.path().join("nowhere"), &["backups"]));
    assert!(nowhere.stderr.contains("there is no data folder"), "{}", nowhere.stderr);
}

/// A restored catalog does not know later objects; their files stay until an operator deletes them.
#[test]
fn what_a_restored_catalog_does_not_know_is_kept() {
    let folder = folder();
    let data = folder.path();
    let older = copies(data);
    statements(
        data,
        &[
            "CREATE LIVE TABLE later (id BIGINT PRIMARY KEY, n BIGINT)",
            "INSERT INTO later VALUES (1, 2)",
            "CREATE CUBE c AS SELECT n, count(*) FROM t GROUP BY n",
            "BUILD CUBE c",
        ],
    );
    let parquet = |root: &Path| {
        let mut command = Command::new("find");
        run(command.arg(root).args(["-name", "*.parquet"])).lines().count()
    };
    let built = parquet(&data.join("cubes"));
    assert!(built > 0);
    // Damages the later copies, so that only earlier ones are whole.
    for copy in copies(data) {
        if !older.contains(&copy) {
            flip(&copy, 50_000);
        }
    }
    std::fs::remove_file(data.join("catalog.sqlite")).unwrap();
    let told = run(&mut catalog(data, &["restore"]));
    for words in ["passed over", "are lost", "not known to this catalog", "nothing of that is deleted"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let server = Server::start(data);
    assert_eq!(server.query(SUM), [["10", "55"]]);
    assert_eq!(parquet(&data.join("cubes")), 0);
    assert_eq!(parquet(&data.join("set-aside")), built, "they were moved, not deleted");
    // A new table of the same name is another table, with rows of its own.
    server.query("CREATE LIVE TABLE later (id BIGINT PRIMARY KEY, n BIGINT)");
    assert_eq!(server.query("SELECT count(*) FROM later"), [["0"]]);
}
