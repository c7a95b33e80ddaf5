//! Cuboids in a bucket instead of the data folder.

use std::path::Path;

use crate::program::{PATIENCE, eventually, nyala, run, try_run};
use crate::s3::{BUCKET, S3};
use crate::server::Server;

const SUM: &str = "SELECT d, sum(v) FROM t GROUP BY d ORDER BY d";

fn place() -> String {
    format!("s3://{BUCKET}/nyala/")
}

/// Rows in all objects of segments, as another program reads them; none without objects.
fn rows_in_bucket(s3: &S3) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let sql = format!("SELECT count(*) AS n FROM '{}cubes/**/*.parquet'", place());
    let arguments = ["sql", "--data-dir", folder.path().to_str().unwrap(), "--format", "csv", "-c", &sql];
    let read = try_run(nyala(&arguments).envs(s3.variables()));
    (read.code == Some(0)).then(|| read.stdout.lines().last().unwrap().trim().parse().unwrap())
}

fn serve(s3: &S3, data_dir: &Path, data: &str) -> Server {
    let mut variables = s3.variables().to_vec();
    variables.push(("NYALA_STORAGE__DATA", data));
    Server::start_with(data_dir, &variables)
}

fn with_cube(server: &Server, files: &Path) {
    let rows = files.join("t.parquet").display().to_string();
    server.query(&format!("COPY (SELECT v % 10 AS d, v FROM generate_series(1, 1000) AS s(v)) TO '{rows}'"));
    server.query(&format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{rows}'"));
    server.query("CREATE CUBE c AS SELECT d, sum(v) FROM t GROUP BY d");
    server.query("BUILD CUBE c");
}

fn check_cube(server: &Server) {
    assert!(server.explain(SUM).starts_with("answered from cube"), "{}", server.explain(SUM));
    assert_eq!(server.query(SUM), server.query_tables(SUM));
    let checked = server.query("CHECK CUBE c SAMPLE 5");
    assert!(checked.iter().all(|row| row[3] == "ok"), "{checked:?}");
}

#[test]
fn a_cube_in_a_bucket_is_built_kept_and_read() {
    let s3 = S3::start();
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(&s3, folder.path(), &place());
    with_cube(&server, files.path());
    check_cube(&server);
    assert_eq!(rows_in_bucket(&s3), Some(10));
    assert!(!folder.path().join("cubes").exists());
    let own = server.try_query(&format!("SELECT * FROM '{}cubes/**/*.parquet'", place()));
    assert!(own.body.contains("files of the server itself"), "{}", own.body);
    server.query("ALTER CUBE c ADD MEASURE max(v)");
    server.query("BUILD CUBE c");
    check_cube(&server);
    drop(server);

    // Objects that a killed process left.
    let orphan = format!("{}cubes/7/0123/0-0.parquet", place());
    let sql = format!("COPY (SELECT 1 AS x) TO '{orphan}'");
    let other = tempfile::tempdir().unwrap();
    run(nyala(&["sql", "--data-dir", other.path().to_str().unwrap(), "-c", &sql]).envs(s3.variables()));
    let server = serve(&s3, folder.path(), &place());
    check_cube(&server);
    assert_ne!(server.query("WARM CACHE FOR CUBE c")[0][0], "0");
    eventually("a warm cuboid", PATIENCE, || server.query("WARM CACHE FOR CUBE c")[0][2] == "0");
    assert_eq!(rows_in_bucket(&s3), Some(10), "the orphan is gone, and so are the files of before");
    assert_ne!(server.query("DROP CACHE FOR CUBE c"), [["0"]]);
    check_cube(&server);
    drop(server);

    // Another data folder would delete objects that its catalog does not know.
    let second = tempfile::tempdir().unwrap();
    let mut command = nyala(&["serve", "--data-dir", second.path().to_str().unwrap()]);
    command.args(["--http-listen", "127.0.0.1:0", "--postgres-listen", "127.0.0.1:0"]);
    let refused = try_run(command.envs(s3.variables()).env("NYALA_STORAGE__DATA", place()));
    assert!(refused.stderr.contains("has the cuboids of another data folder"), "{}", refused.stderr);
    assert_eq!(rows_in_bucket(&s3), Some(10));
}

#[test]
fn a_server_starts_while_the_bucket_of_its_cuboids_does_not_answer() {
    let s3 = S3::start();
    let proxy = s3.proxy();
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = place();
    let mut variables = s3.variables().to_vec();
    variables[0].1 = &proxy.url;
    variables.extend([("NYALA_STORAGE__DATA", place.as_str()), ("NYALA_STORAGE__RETRY_FOR_MS", "100")]);
    let server = Server::start_with(folder.path(), &variables);
    with_cube(&server, files.path());
    let warmed = server.query("WARM CACHE FOR CUBE c").swap_remove(0);
    assert_eq!(warmed[1], warmed[3], "all of it is cached: {warmed:?}");
    let expected = server.query(SUM);
    drop(server);

    proxy.close(true);
    let server = Server::start_with(folder.path(), &variables);
    assert!(server.explain(SUM).starts_with("answered from cube"), "{}", server.explain(SUM));
    assert_eq!(server.query(SUM), expected);
    let refused = server.try_query("REFRESH CUBE c");
    assert!(refused.body.contains("has not been reached since the server started"), "{}", refused.body);
    proxy.close(false);
    eventually("a build in the bucket", PATIENCE, || server.try_query("REFRESH CUBE c").status == 200);
    check_cube(&server);
}

#[test]
fn cuboids_are_moved_to_a_bucket_and_back() {
    let s3 = S3::start();
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data_dir = folder.path().to_str().unwrap();
    let server = serve(&s3, folder.path(), "");
    with_cube(&server, files.path());
    drop(server);

    // A changed configuration alone is refused, and says what to do.
    let place = place();
    let serve_there = |place: &str| {
        let mut command = nyala(&["serve", "--data-dir", data_dir, "--http-listen", "127.0.0.1:0"]);
        command
            .args(["--postgres-listen", "127.0.0.1:0"])
            .envs(s3.variables())
            .env("NYALA_STORAGE__DATA", place);
        try_run(&mut command)
    };
    let refused = serve_there(&place);
    assert!(refused.stderr.contains(&format!("nyala storage move {place}")), "{}", refused.stderr);
    let move_to =
        |target: &str| run(nyala(&["storage", "move", "--data-dir", data_dir, target]).envs(s3.variables()));
    let moved = move_to(&place);
    assert!(moved.starts_with("moved 1 files of 1 segments"), "{moved}");
    assert!(moved.contains(&format!("set `storage.data = \"{place}\"`")), "{moved}");
    // The same place in other spellings: a move to itself would delete the only copy.
    for same in [place.as_str(), place.trim_end_matches('/'), &place.replace("nyala/", "./n%79ala")] {
        assert!(move_to(same).starts_with("the cuboids are there already"), "{same}");
    }
    assert_eq!(rows_in_bucket(&s3), Some(10));
    let server = serve(&s3, folder.path(), &place);
    check_cube(&server);
    drop(server);

    // A move that ended before it had deleted the old files leaves this note.
    let note = folder.path().join("cuboids-at");
    let left = folder.path().join("cubes/7/0123");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(&note, format!("{place}\nleft \n")).unwrap();
    assert!(move_to(&place).starts_with("the cuboids are there already"));
    assert!(!left.exists());

    let refused = serve_there("");
    assert!(refused.stderr.contains("nyala storage move local"), "{}", refused.stderr);
    assert!(move_to("local").starts_with("moved 1 files of 1 segments"));
    assert_eq!(rows_in_bucket(&s3), None);
    let server = serve(&s3, folder.path(), "");
    check_cube(&server);
    drop(server);

    let sql = format!("COPY (SELECT 1 AS x) TO '{place}cubes/7/0123/0-0.parquet'");
    let other = tempfile::tempdir().unwrap();
    run(nyala(&["sql", "--data-dir", other.path().to_str().unwrap(), "-c", &sql]).envs(s3.variables()));
    assert_eq!(rows_in_bucket(&s3), Some(1));
    std::fs::write(&note, format!("\nleft {place}\n")).unwrap();
    assert!(move_to("local").starts_with("the cuboids are there already"));
    assert_eq!(rows_in_bucket(&s3), None);
    assert!(!note.exists());
}
