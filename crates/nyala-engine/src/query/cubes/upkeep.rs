//! Automatic upkeep of cubes: drops old segments, merges neighbours, and reads changed files again.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nyala_cube::cube::ReadyCube;
use nyala_cube::cube::build::{SegmentHome, Work, due_fold_merge, is_due, kept_from};
use nyala_cube::live::Pins;
use nyala_model::{CubeId, JobKind, QualifiedName, SegmentEntry, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, Result};

use super::build::{Wish, find, run_job};
use super::drop_segments::drop_segments;
use super::maker::Maker;
use crate::query::engine::Engine;

/// Pause after a failed refresh of a cube; after each further failure twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
const MAX_REST: Duration = Duration::from_secs(3600);
/// Pause after a refresh of a cube over live tables, as a multiple of its duration: rows that change all
/// the time must not keep the machine busy.
const REST_AFTER_WORK: u32 = 9;

/// Drops outdated segments and merges due ones, as part of the job that built something.
pub async fn after_build(maker: &Maker) -> Result<()> {
    drop_outdated(&maker.engine, &maker.context.home, &maker.name).await?;
    loop {
        let cube = maker.cube()?;
        let Some(merge) = due_merge(&cube) else { return Ok(()) };
        maker.context.progress.expect(cube.entry.definition.grouping_sets.len());
        match maker.make(&merge).await {
            // Files have changed since the merge was found due: the next build merges. Or a file is damaged: its
            // segment is rebuilt before it is merged.
            Err(error) if matches!(error.kind, ErrorKind::Unreadable | ErrorKind::Corrupt) => {
                tracing::warn!(cube = %maker.name, %error, "segments are not merged");
                return Ok(());
            }
            made => made?,
        }
    }
}

/// Drops segments older than the cube's retention, and ranges without rows that may have some now. Queries read their
/// rows from the tables.
pub async fn drop_outdated(engine: &Arc<Engine>, home: &SegmentHome, name: &QualifiedName) -> Result<()> {
    let cube = find(engine, name)?;
    drop_segments(engine, home, name, outdated(&cube)).await
}

/// Drops ranges without rows in a part of which new segments are made. The rest of such a range is found again by the next build.
pub async fn drop_gaps(
    engine: &Arc<Engine>,
    home: &SegmentHome,
    name: &QualifiedName,
    works: &[Work],
) -> Result<()> {
    let cube = find(engine, name)?;
    let made = works.iter().filter(|work| !matches!(work, Work::Extend(..)));
    let made: Vec<SegmentRange> = made.map(Work::range).collect();
    let gaps = cube.entry.segments.iter().filter(|segment| segment.is_gap());
    // A range that a new segment contains is dropped when the segment is published.
    let cut = |gap: &SegmentEntry| made.iter().any(|r| r.overlaps(gap.range) && !r.contains(gap.range));
    let replaced = gaps.filter(|gap| cut(gap)).cloned();
    drop_segments(engine, home, name, replaced.collect()).await
}

fn outdated(cube: &ReadyCube) -> Vec<SegmentEntry> {
    let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
    let from = column.and_then(|column| kept_from(cube, column, None));
    let old = |segment: &&SegmentEntry| match segment.range {
        SegmentRange::Keys(keys) => {
            segment.state != SegmentState::Building && from.is_some_and(|from| keys.to <= from)
        }
        SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => false,
    };
    let stale_gap =
        |segment: &&SegmentEntry| segment.is_gap() && cube.coverage.why_stale(segment.id).is_some();
    cube.entry.segments.iter().filter(|segment| old(segment) || stale_gap(segment)).cloned().collect()
}

fn due_merge(cube: &ReadyCube) -> Option<Work> {
    if let Some(merge) = due_fold_merge(cube) {
        return Some(merge);
    }
    let definition = &cube.entry.definition;
    let division = definition.partition.as_ref()?;
    let (mut fit, mut gaps) = (Vec::new(), Vec::new());
    for segment in cube.coverage.usable(&cube.entry) {
        let SegmentRange::Keys(range) = segment.range else { continue };
        if segment.is_gap() {
            gaps.push(range);
        } else if definition.outstanding(segment).is_empty() {
            fit.push((range, segment.id));
        }
    }
    fit.sort();
    let data = cube.coverage.data.subtract(&gaps.iter().copied().collect());
    let due = division.due_merge(&definition.options.auto_merge, &fit, &data)?;
    // The range is not over yet: rows may come where there are none.
    if gaps.iter().any(|gap| due.0.overlaps(*gap) && !due.0.contains(*gap)) {
        return None;
    }
    // A stale or incomplete segment prevents the merge.
    let ready = cube.entry.segments.iter().filter(|s| s.state == SegmentState::Ready && !s.is_gap());
    let within = ready.filter(|segment| segment.range.overlaps(SegmentRange::Keys(due.0))).count();
    (within == due.1.len()).then_some(Work::Merge(SegmentRange::Keys(due.0), due.1))
}

/// Refreshes cubes with `auto_refresh`, one after the other, for as long as there is an engine.
pub async fn refresh_for_ever(engine: Weak<Engine>, every: Duration) {
    let mut resting: HashMap<CubeId, Rest> = HashMap::new();
    loop {
        tokio::time::sleep(every).await;
        let Some(engine) = engine.upgrade() else { return };
        let due = due_refreshes(&engine);
        let now = Instant::now();
        resting.retain(|cube, rest| rest.until > now || due.iter().any(|(id, ..)| id == cube));
        for (id, name, reads_live) in due {
            let begun = Instant::now();
            if resting.get(&id).is_some_and(|rest| rest.until > Instant::now()) {
                continue;
            }
            match refresh(&engine, name).await {
                Ok(()) if reads_live => drop(resting.insert(id, Rest::after(begun.elapsed()))),
                Ok(()) => drop(resting.remove(&id)),
                Err(()) => resting.entry(id).or_default().longer(),
            }
        }
    }
}

/// Cubes to refresh, and whether they read live tables.
fn due_refreshes(engine: &Engine) -> Vec<(CubeId, QualifiedName, bool)> {
    let context = engine.snapshots.current();
    let wanting = context.cubes().iter().filter(|cube| cube.entry.definition.options.auto_refresh);
    let due = wanting.filter(|cube| cube.compiled.is_ok() && is_due(&cube.at(&Pins::default())));
    due.map(|cube| (cube.entry.id, cube.entry.name.clone(), cube.reads_live())).collect()
}

/// Refreshes a cube. The job and the log have the error; the caller needs only the outcome.
async fn refresh(engine: &Arc<Engine>, name: QualifiedName) -> Result<(), ()> {
    let settings = engine.default_settings();
    let wish = Wish { name: name.clone(), kind: JobKind::AutoRefresh, range: None };
    match run_job(engine, wish, &settings).await {
        // Another statement builds or alters the cube.
        Err(error) if error.kind == ErrorKind::InUse => Ok(()),
        Err(error) => {
            tracing::warn!(cube = %name, %error, "a cube was not refreshed");
            Err(())
        }
        Ok(()) => Ok(()),
    }
}

/// The pause of a cube between automatic refreshes.
#[derive(Debug)]
struct Rest {
    until: Instant,
    next: Duration,
}

impl Default for Rest {
    fn default() -> Self {
        Self { until: Instant::now(), next: FIRST_REST }
    }
}

impl Rest {
    /// The pause after a refresh that took this long.
    fn after(took: Duration) -> Self {
        Self { until: Instant::now() + took.saturating_mul(REST_AFTER_WORK).min(MAX_REST), next: FIRST_REST }
    }

    fn longer(&mut self) {
        self.until = Instant::now() + self.next;
        self.next = (self.next * 2).min(MAX_REST);
    }
}
