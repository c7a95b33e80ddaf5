//! Background jobs.

use nyala_model::{JobEntry, JobId, JobKind, JobState};

use super::fixtures::*;

pub async fn jobs_are_listed_newest_first(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let version = subject.catalog.snapshot().version;
    let mut ids = Vec::new();
    for started in [300, 100, 200] {
        ids.push(
            subject.catalog.create_job(JobKind::Build, &name("revenue"), 4, &node(), started).await.unwrap(),
        );
    }
    let mut second = running(ids[1], 100);
    second.state = JobState::Failed;
    second.rows_read = u64::MAX;
    second.rows_total = u64::MAX - 1;
    second.retries = 3;
    second.cuboids_done = 3;
    second.cuboids_total = u32::MAX;
    second.bytes_written = 1 << 40;
    second.ended_at_ms = Some(150);
    second.error = Some("disk `/data` is full".to_owned());
    subject.catalog.update_job(&second).await.unwrap();
    let expected = [running(ids[2], 200), second, running(ids[0], 300)];
    let reopened = Subject::open(backend).await;
    assert_eq!(reopened.catalog.jobs().await.unwrap(), expected);
    assert_eq!(reopened.catalog.snapshot().version, version);
}

pub async fn a_missing_job_is_refused(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let error = subject.catalog.update_job(&running(JobId(7), 0)).await.unwrap_err();
    assert_eq!(error.to_string(), "job `7` does not exist; SHOW JOBS lists what does");
    assert!(subject.catalog.jobs().await.unwrap().is_empty());
}

pub async fn jobs_that_ended_are_forgotten_oldest_first(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let mut ids = Vec::new();
    for started in 0..6 {
        let id =
            subject.catalog.create_job(JobKind::Build, &name("revenue"), 4, &node(), started).await.unwrap();
        // The first and the fourth job are still running.
        if started % 3 != 0 {
            let state = if started == 1 { JobState::Failed } else { JobState::Done };
            subject.catalog.update_job(&JobEntry { state, ..running(id, started) }).await.unwrap();
        }
        ids.push(id);
    }
    subject.catalog.forget_jobs(2).await.unwrap();
    let listed = |jobs: Vec<JobEntry>| jobs.into_iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(listed(subject.catalog.jobs().await.unwrap()), [ids[5], ids[4], ids[3], ids[0]]);
    subject.catalog.forget_jobs(0).await.unwrap();
    assert_eq!(listed(subject.catalog.jobs().await.unwrap()), [ids[3], ids[0]]);
    let next = subject.catalog.create_job(JobKind::Build, &name("revenue"), 4, &node(), 9).await.unwrap();
    assert!(next > ids[5], "an id is given again");
}

fn running(id: JobId, started_at_ms: u64) -> JobEntry {
    JobEntry {
        id,
        kind: JobKind::Build,
        cube: name("revenue"),
        state: JobState::Running,
        rows_read: 0,
        cuboids_done: 0,
        cuboids_total: 4,
        bytes_written: 0,
        started_at_ms,
        ended_at_ms: None,
        error: None,
        rows_total: 0,
        retries: 0,
        node: node(),
    }
}
