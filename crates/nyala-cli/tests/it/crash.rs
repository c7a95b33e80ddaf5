//! Builds that are cut off: by SIGKILL, by Ctrl-C, by a full disk.
//!
//! In every case a segment is visible as a whole or not at all, queries answer all the
//! time, and building again succeeds: after a kill it goes on with the cuboids that were finished, after
//! any other end the space is given back.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{assert_same, sorted};
use crate::program::{PATIENCE, Running, eventually, nyala, run, try_run};
use crate::server::{Server, send, statement_request};
use crate::star::{Star, queries, sql};

const BUILD: &str = "BUILD CUBE ssb";
const CUBOIDS: usize = 10;
/// How often a build is killed; `NYALA_KILLS` asks for more.
const ROUNDS: usize = 6;

#[test]
fn a_build_killed_at_any_moment_leaves_nothing_half_visible() {
    let star = Star::generate("0.1");
    let usual = usual_build_time(&star);
    let data = star.path("data");
    star.define(&data);
    let rounds = std::env::var("NYALA_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut resumable = 0;
    for round in 0..rounds {
        // The second half of the rounds has an older segment, which must go on answering.
        let built_before = round >= rounds / 2;
        if built_before {
            sql(&data, BUILD);
        }
        let moment = usual.mul_f64(random_fraction());
        let by = if round % 2 == 0 { "nyala sql" } else { "nyala serve" };
        println!("round {round}: `{by}` killed after {moment:?} of about {usual:?}");
        if round % 2 == 0 {
            kill_embedded(&data, moment)
        } else {
            kill_server(&data, moment)
        }
        let server = Server::start(&data);
        let built = check_consistent(&server, &data);
        assert!(built || !built_before, "the older segment is gone");
        resumable += usize::from(interrupted(&server).is_some_and(|cuboids| cuboids > 0));
    }
    println!("{resumable} of {rounds} builds left finished cuboids");
    sql(&data, BUILD);
    let server = Server::start(&data);
    assert!(check_consistent(&server, &data), "building again had no effect");
    assert_eq!(interrupted(&server), None, "the build did not take up what was left");
    for (name, query) in queries() {
        assert!(server.explain(&query).contains("answered from cube"), "{name}");
        check_same(&server, &query);
    }
}

/// A moment at random rarely lies between the first cuboid and the last, so this one waits for it.
#[test]
fn a_build_killed_between_two_cuboids_goes_on_with_the_others() {
    let star = Star::generate("0.1");
    let data = star.path("data");
    star.define(&data);
    let mut resumed = 0;
    for round in 0..12 {
        let mut server = Server::start(&data);
        let address = server.http;
        let building = std::thread::spawn(move || send(address, &statement_request(BUILD)));
        // Cuboids are counted when they are recorded; a later round waits for more of them.
        let wanted = 1 + round % 4;
        while !building.is_finished() && cuboids_done(&server) < wanted {
            sleep(Duration::from_millis(1));
        }
        server.process.kill();
        building.join().unwrap();
        let server = Server::start(&data);
        check_consistent(&server, &data);
        let left = left_segment(&server);
        if let Some((segment, cuboids)) = left.filter(|(_, cuboids)| *cuboids > 0) {
            assert_eq!(server.try_query(BUILD).status, 200);
            let segments = server.query("SHOW SEGMENTS FOR ssb");
            assert_eq!(
                (segments.len(), &segments[0][2]),
                (1, &segment),
                "{cuboids} cuboids were not taken up"
            );
            assert!(check_consistent(&server, &data), "building again had no effect");
            let findings = server.query("CHECK CUBE ssb SAMPLE 10");
            assert!(findings.iter().all(|row| row[3] == "ok"), "{findings:?}");
            resumed += 1;
        }
        drop(server);
        if resumed == 3 {
            break;
        }
        sql(&data, "DROP CUBE ssb");
        star.define_cube(&data);
    }
    println!("{resumed} builds went on with finished cuboids");
    assert!(resumed > 0, "no build was killed between two cuboids");
}

/// Finished cuboids of the newest job.
fn cuboids_done(server: &Server) -> u64 {
    let jobs: serde_json::Value = serde_json::from_str(&server.get("/api/v1/jobs").body).unwrap();
    let running = jobs["jobs"][0]["state"] == "running";
    if running { jobs["jobs"][0]["cuboids_done"].as_u64().unwrap() } else { 0 }
}

/// The segment of a build that died, and how many cuboids it has.
fn left_segment(server: &Server) -> Option<(String, usize)> {
    let segments = server.query("SHOW SEGMENTS FOR ssb");
    let left = segments.into_iter().find(|segment| segment[4] == "interrupted")?;
    Some((left[2].clone(), left[7].parse().ok()?))
}

/// Until a file is complete the store keeps it under another name, which ends in `#1`, and does not list
/// it: a kill at that moment leaves one that is easily overlooked.
#[test]
fn every_file_without_an_owner_is_deleted_at_the_next_start() {
    let star = Star::generate("0.01");
    let data = star.built();
    let owned = files_below(&data.join("cubes")).len();
    let lost = data.join("cubes/4711/01a1fc905a4b7355a8df8e0bf7a12460");
    std::fs::create_dir_all(&lost).unwrap();
    for name in ["1-0.parquet", "1-1.parquet#1"] {
        std::fs::write(lost.join(name), "lost").unwrap();
    }
    sql(&data, "SELECT 1");
    assert_eq!(files_below(&lost), Vec::<PathBuf>::new(), "still there after a start");
    assert_eq!(files_below(&data.join("cubes")).len(), owned, "files of a segment are gone");
    assert!(check_consistent(&Server::start(&data), &data));
}

#[test]
fn ctrl_c_ends_a_build_at_once() {
    let star = Star::generate("0.1");
    let usual = usual_build_time(&star);
    let data = star.path("data");
    // Other work on the machine makes one build last longer than another.
    let building = [2, 4, 8, 16].into_iter().find_map(|part| {
        let _ = std::fs::remove_dir_all(&data);
        star.define(&data);
        let mut building = Running::start(nyala(&["sql", "-c", BUILD, "--data-dir"]).arg(&data));
        sleep(usual / part);
        building.is_running().then_some(building)
    });
    let mut building = building.expect("a build that is not over in a sixteenth of its time");
    building.signal("INT");
    let asked = Instant::now();
    let finished = building.finish(PATIENCE);
    assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("cancelled"), "{finished:?}");
    assert_eq!(sql(&data, "SHOW CUBES")[0][2], "not built");
    sql(&data, BUILD);
    assert!(check_consistent(&Server::start(&data), &data));
}

#[test]
fn a_build_runs_once_at_a_time_and_ends_when_its_client_leaves() {
    let star = Star::generate("0.1");
    let data = star.path("data");
    star.define(&data);
    let server = Server::start(&data);
    let mut client = TcpStream::connect(server.http).unwrap();
    client.write_all(&statement_request(BUILD)).unwrap();
    let running = || server.query("SHOW JOBS").iter().any(|job| job[3] == "running");
    eventually("the build runs", PATIENCE, running);
    for statement in [BUILD, "DROP CUBE ssb"] {
        let refused = server.try_query(statement);
        assert_eq!(refused.status, 409, "{statement}: {}", refused.body);
        assert!(refused.body.contains("being built"), "{statement}: {}", refused.body);
    }
    drop(client);
    eventually("the build has ended", Duration::from_secs(10), || !running());
    eventually("space given back", Duration::from_secs(10), || files_below(&data.join("cubes")).is_empty());
    assert!(!check_consistent(&server, &data), "a segment was published");
    assert_eq!(server.try_query(BUILD).status, 200);
    assert!(check_consistent(&server, &data), "building again had no effect");
}

#[test]
fn a_build_is_watched_and_cancelled_over_http() {
    let star = Star::generate("0.1");
    let data = star.path("data");
    star.define(&data);
    let server = Server::start(&data);
    let address = server.http;
    let building = std::thread::spawn(move || send(address, &statement_request(BUILD)));
    let jobs = || -> serde_json::Value { serde_json::from_str(&server.get("/api/v1/jobs").body).unwrap() };
    eventually("the build runs", PATIENCE, || jobs()["jobs"][0]["state"] == "running");
    let job = jobs()["jobs"][0].clone();
    assert_eq!((job["kind"].as_str(), job["cube"].as_str()), (Some("build"), Some("public.ssb")), "{job}");
    let mut metrics = String::new();
    eventually("the build is in the metrics", PATIENCE, || {
        metrics = server.get("/metrics").body;
        metrics.contains("nyala_builds_running 1")
    });
    let own =
        format!("nyala_build_job_percent{{job=\"{}\",cube=\"public.ssb\",kind=\"build\"}} ", job["job"]);
    assert!(metrics.contains(&own), "{own}\n{metrics}");
    let path = format!("/api/v1/jobs/{}", job["job"]);
    assert_eq!(server.delete(&path).status, 202);
    let answer = String::from_utf8(building.join().unwrap()).unwrap();
    assert!(answer.contains("was cancelled"), "{answer}");
    eventually("the job has ended", PATIENCE, || server.get(&path).body.contains("cancelled"));
    assert_eq!(server.delete(&path).status, 409);
    assert_eq!(server.delete("/api/v1/jobs/4711").status, 404);
    assert_eq!(server.get("/api/v1/jobs/first").status, 404);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("nyala_builds_total{outcome=\"cancelled\"} 1"));
    assert!(!metrics.contains("nyala_build_job_"), "{metrics}");
    eventually("space given back", Duration::from_secs(10), || files_below(&data.join("cubes")).is_empty());
    assert!(!check_consistent(&server, &data), "a segment was published");
}

/// Needs a small file system, which only root may mount.
#[test]
fn a_full_disk_fails_the_build_and_nothing_else() {
    let star = Star::generate("0.1");
    let folder = star.path("small");
    let Some(disk) = SmallDisk::mount(&folder, "12m") else { return };
    let data = folder.join("data");
    star.define(&data);
    let server = Server::start(&data);
    let response = server.try_query(BUILD);
    assert_eq!(response.status, 507, "{}", response.body);
    // Either writing a cuboid finds the disk full, or recording the finished cuboids in the catalog.
    assert!(response.body.contains(r#""code":"disk_full""#), "{}", response.body);
    eventually("space given back", Duration::from_secs(10), || files_below(&data.join("cubes")).is_empty());
    server.check_alive("a full disk");
    assert!(!check_consistent(&server, &data), "a segment was published");
    let jobs = server.query("SHOW JOBS");
    assert_eq!(jobs[0][3], "failed", "also while the disk is too full to record it: {jobs:?}");
    disk.resize("200m");
    assert_eq!(server.try_query(BUILD).status, 200);
    assert!(check_consistent(&server, &data), "building again had no effect");
}

/// Checks that catalog, files and answers fit together; gives whether the cube is built.
fn check_consistent(server: &Server, data: &Path) -> bool {
    let built = match server.query("SHOW CUBES")[0][2].as_str() {
        "ready" => true,
        "not built" => false,
        other => panic!("the cube is `{other}`"),
    };
    let segments = server.query("SHOW SEGMENTS FOR ssb");
    let in_state = |state| segments.iter().filter(|segment| segment[4] == state).count();
    assert_eq!(in_state("ready"), usize::from(built), "{segments:?}");
    assert!(in_state("interrupted") <= 1, "{segments:?}");
    assert_eq!(in_state("ready") + in_state("interrupted"), segments.len(), "{segments:?}");
    let cuboids = server.query("SHOW CUBOIDS FOR ssb");
    assert_eq!(cuboids.len(), if built { CUBOIDS } else { 0 }, "{cuboids:?}");
    let owned: usize = cuboids.iter().map(|cuboid| cuboid[6].parse::<usize>().unwrap()).sum();
    let found = files_below(&data.join("cubes"));
    let spare = if in_state("interrupted") > 0 { usize::MAX } else { 0 };
    let fits = (owned..=owned.saturating_add(spare)).contains(&found.len());
    assert!(fits, "{owned} files are owned, others lost or of no segment: {found:#?}");
    let jobs = server.query("SHOW JOBS");
    assert!(jobs.iter().all(|job| job[3] != "running"), "{jobs:?}");
    for (name, query) in queries().iter().step_by(4) {
        let report = server.explain(query);
        assert_eq!(report.contains("answered from cube"), built, "{name}\n{report}");
        check_same(server, query);
    }
    built
}

/// Finished cuboids of a segment with an interrupted build.
fn interrupted(server: &Server) -> Option<usize> {
    let segments = server.query("SHOW SEGMENTS FOR ssb");
    segments.iter().find(|segment| segment[4] == "interrupted")?[7].parse().ok()
}

fn check_same(server: &Server, query: &str) {
    assert_same(query, &sorted(server.query(query)), &sorted(server.query_tables(query)));
}

fn kill_embedded(data: &Path, after: Duration) {
    let mut building = Running::start(nyala(&["sql", "-c", BUILD, "--data-dir"]).arg(data));
    sleep(after);
    building.kill();
}

fn kill_server(data: &Path, after: Duration) {
    let mut server = Server::start(data);
    let address = server.http;
    let building = std::thread::spawn(move || send(address, &statement_request(BUILD)));
    sleep(after);
    server.process.kill();
    building.join().unwrap();
}

/// How long a build takes here and now, start of the process included.
fn usual_build_time(star: &Star) -> Duration {
    let data = star.path("measured");
    star.define(&data);
    let begin = Instant::now();
    sql(&data, BUILD);
    begin.elapsed()
}

/// At least 0, less than 1. No seed would make the outcome repeatable, so none is kept.
fn random_fraction() -> f64 {
    f64::from(RandomState::new().hash_one(0) as u32) / f64::from(u32::MAX)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect()
}

/// A file system in memory, gone when this value is.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, and a line that says so, where mounting is not permitted.
    fn mount(folder: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let options = format!("size={size}");
        let mounted =
            try_run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder));
        if mounted.code == Some(0) {
            return Some(Self(folder.to_owned()));
        }
        println!("SKIPPED: a small file system cannot be mounted here: {}", mounted.stderr.trim());
        None
    }

    fn resize(&self, size: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, since a server may still have files open when a test fails.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
