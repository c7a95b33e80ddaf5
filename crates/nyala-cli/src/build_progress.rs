//! Shows how far cube builds are while a statement runs.

use std::collections::HashMap;
use std::io::{IsTerminal, Write, stderr};
use std::pin::pin;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use nyala_engine::Engine;
use nyala_model::{JobEntry, JobId};
use tokio::time::{MissedTickBehavior, interval};

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Runs `work`, and shows the engine's builds on stderr meanwhile: bars on a terminal, else a line now
/// and then.
pub async fn shown<T>(engine: &Engine, work: impl Future<Output = T>) -> T {
    let mut display = Display::new();
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                display.clear();
                return done;
            }
            _ = looks.tick() => display.show(&engine.build_progress()),
        }
    }
}

enum Display {
    Bars { all: MultiProgress, by_job: HashMap<JobId, ProgressBar> },
    Lines { next: Instant },
}

impl Display {
    fn new() -> Self {
        if stderr().is_terminal() {
            Display::Bars { all: MultiProgress::new(), by_job: HashMap::new() }
        } else {
            Display::Lines { next: Instant::now() + LINE_EVERY }
        }
    }

    fn show(&mut self, jobs: &[JobEntry]) {
        match self {
            Display::Bars { all, by_job } => {
                for job in jobs {
                    let bar = by_job.entry(job.id).or_insert_with(|| all.add(bar()));
                    bar.set_length(u64::from(job.cuboids_total));
                    bar.set_position(u64::from(job.cuboids_done));
                    bar.set_message(line(job));
                }
            }
            Display::Lines { next } if !jobs.is_empty() && Instant::now() >= *next => {
                *next = Instant::now() + LINE_EVERY;
                for job in jobs {
                    // A closed stderr is no reason to stop building.
                    let _ = writeln!(stderr(), "{}", line(job));
                }
            }
            Display::Lines { .. } => {}
        }
    }

    fn clear(&mut self) {
        if let Display::Bars { by_job, .. } = self {
            by_job.values().for_each(ProgressBar::finish_and_clear);
        }
    }
}

fn bar() -> ProgressBar {
    // An invalid template would only cost the layout.
    let style = ProgressStyle::with_template("{spinner} [{elapsed_precise}] {wide_bar} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(LOOK_EVERY);
    bar
}

fn line(job: &JobEntry) -> String {
    format!(
        "building {}: {} rows read, cuboid {} of {}, {:.1} MB written",
        job.cube,
        job.rows_read,
        job.cuboids_done,
        job.cuboids_total,
        job.bytes_written as f64 / 1e6
    )
}
