//! Metrics of each running build.
//!
//! The recorder never forgets a series, so it would grow with every build and report builds that ended long ago.
//! So these metrics are written beside it.

use std::fmt::Write;

use nyala_model::JobEntry;

use super::escaped;

/// Name, meaning, and the function that reads the value.
type Gauge = (&'static str, &'static str, fn(&JobEntry) -> u64);

const GAUGES: &[Gauge] = &[
    ("nyala_build_job_rows_read", "Rows that a running build has read.", |job| job.rows_read),
    ("nyala_build_job_rows_total", "Rows that it will read; 0 if nobody knows.", |job| job.rows_total),
    ("nyala_build_job_cuboids_done", "Cuboids it has finished.", |job| job.cuboids_done.into()),
    ("nyala_build_job_cuboids_total", "Cuboids it will have finished.", |job| job.cuboids_total.into()),
    ("nyala_build_job_bytes_written", "Bytes it has written.", |job| job.bytes_written),
    ("nyala_build_job_percent", "How much of it is done, in per cent.", |job| job.percent().into()),
    ("nyala_build_job_retries", "How often a part of it was tried again.", |job| job.retries.into()),
    ("nyala_build_job_started_seconds", "When it began, in seconds since 1970.", |job| {
        job.started_at_ms / 1000
    }),
];

/// The metrics in Prometheus' text format; empty when nothing is built.
pub fn render(jobs: &[JobEntry]) -> String {
    let mut text = String::new();
    if jobs.is_empty() {
        return text;
    }
    for (name, meaning, value) in GAUGES {
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
        for job in jobs {
            let (id, cube, kind) = (job.id.0, escaped(&job.cube.to_string()), job.kind.word());
            let _ = writeln!(text, "{name}{{job=\"{id}\",cube=\"{cube}\",kind=\"{kind}\"}} {}", value(job));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use nyala_model::{JobId, JobKind, JobState, QualifiedName};

    use super::*;

    #[test]
    fn each_running_build_has_a_line_and_names_cannot_end_it() {
        let job = JobEntry {
            id: JobId(7),
            kind: JobKind::Refresh,
            cube: QualifiedName::new("public", "a\"b\\c\nd"),
            state: JobState::Running,
            rows_read: 50,
            rows_total: 100,
            cuboids_done: 1,
            cuboids_total: 4,
            bytes_written: 9,
            started_at_ms: 1_500,
            ended_at_ms: None,
            retries: 2,
            error: None,
            node: nyala_model::NodeId::default(),
        };
        let text = render(&[job]);
        let labels = r#"{job="7",cube="public.a\"b\\c\nd",kind="refresh"}"#;
        for line in [
            format!("nyala_build_job_rows_read{labels} 50"),
            format!("nyala_build_job_percent{labels} 37"),
            format!("nyala_build_job_started_seconds{labels} 1"),
            "# TYPE nyala_build_job_retries gauge".to_owned(),
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert_eq!(render(&[]), "");
    }
}
