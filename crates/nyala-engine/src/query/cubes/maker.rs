//! Makes the segments of one job: several from one pass over their rows, each completed and published on
//! its own, and retried after transient errors.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nyala_cube::cube::build::{
    BuildContext, MAX_ROWS, RangeFacts, Resume, Survey, WantedSegment, Work, build, build_roots_together,
    extend, groups, merge, record_gap, survey,
};
use nyala_cube::cube::{Dice, LiveVersions, ReadyCube, fingerprints};
use nyala_cube::live::Pins;
use nyala_model::{QualifiedName, SegmentEntry, SegmentRange, SourceFiles};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::sync::Mutex;

use super::build::{find, find_in};
use super::{divide, upkeep};
use crate::query::engine::Engine;
use crate::session::SnapshotContext;

/// Wait before the second attempt; before each further one five times as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(125);

/// Makes the segments of one job.
pub struct Maker {
    pub engine: Arc<Engine>,
    pub name: QualifiedName,
    pub context: BuildContext,
    /// The versions of live tables that the whole job reads.
    pub pins: Arc<Pins>,
    /// The listings in which ranges without rows were found.
    pub before: Arc<SnapshotContext>,
    /// Contains the range of every segment to build.
    pub range: SegmentRange,
    /// Facts about these rows, and the files that held the rows then.
    pub survey: Mutex<Option<(Vec<SourceFiles>, Arc<Survey>)>>,
    /// Which nodes' unfinished segments are taken up.
    pub resume: Resume,
    /// Whether other nodes were given parts of the job.
    pub is_divided: Arc<AtomicBool>,
}

impl Maker {
    /// The current cube, over the pinned versions of live tables.
    pub fn cube(&self) -> Result<Arc<ReadyCube>> {
        Ok(find(&self.engine, &self.name)?.at(&self.pins))
    }

    fn sources(
        &self,
        context: &SnapshotContext,
        cube: &ReadyCube,
        range: SegmentRange,
    ) -> Result<Vec<SourceFiles>> {
        let compiled = cube.compiled.as_ref().map_err(QueryError::internal)?;
        let versions = LiveVersions::of(compiled, &self.pins)
            .map_err(|reason| QueryError::new(ErrorKind::Unreadable, reason))?;
        fingerprints(&cube.entry, compiled, (context.listings(), &versions), range).map_err(|table| {
            QueryError::new(
                ErrorKind::Unreadable,
                format!("the files of table `{table}` could not be listed"),
            )
        })
    }

    /// Fails if files changed meanwhile: they may have been read half old, half new. Of live tables one
    /// version is read, which does not change.
    async fn check_unchanged(&self, cube: &ReadyCube, wanted: &WantedSegment) -> Result<()> {
        self.engine.check_files(Some(&cube.entry.definition.sources)).await?;
        let now = self.sources(&self.engine.snapshots.current(), cube, wanted.range)?;
        let mut files = now.iter().filter(|source| source.live.is_none());
        if let Some(changed) = files.find(|files| !wanted.sources.contains(files)) {
            let message = format!("files of table `{}` changed while the segment was built", changed.table);
            return Err(QueryError::new(ErrorKind::Unreadable, message).hint("run the statement again"));
        }
        Ok(())
    }

    /// Facts about all rows of the job, found once unless their files change.
    async fn surveyed(&self, cube: &ReadyCube) -> Result<Arc<Survey>> {
        let now = self.sources(&self.engine.snapshots.current(), cube, self.range)?;
        let mut known = self.survey.lock().await;
        if let Some((files, survey)) = known.as_ref()
            && *files == now
        {
            return Ok(Arc::clone(survey));
        }
        let survey = Arc::new(survey(cube, self.range, &self.context).await?);
        *known = Some((now, Arc::clone(&survey)));
        Ok(survey)
    }

    /// Makes the segments in turn, then applies retention and merges.
    pub async fn make_all(&self, works: Vec<Work>) -> Result<()> {
        upkeep::drop_gaps(&self.engine, &self.context.home, &self.name, &works).await?;
        let works = divide::make_on_nodes(self, works).await?;
        self.make_each(works).await?;
        upkeep::after_build(self).await
    }

    /// Makes the segments in turn.
    pub async fn make_each(&self, works: Vec<Work>) -> Result<()> {
        for group in groups(&*self.cube()?, works, MAX_ROWS) {
            let known = self.prepare(&group).await;
            for work in group {
                let known = known.iter().find(|facts| facts.range() == work.range());
                self.make_one(&work, known).await?;
            }
        }
        Ok(())
    }

    /// Reads the rows of several segments at once, of half as many if memory is too short. After any other
    /// error the segments are built one by one, so that all before the failing one become ready and its
    /// error is reported.
    async fn prepare(&self, group: &[Work]) -> Vec<RangeFacts> {
        let progress = &self.context.progress;
        let (mut known, mut waiting) = (Vec::new(), vec![group]);
        while let Some(part) = waiting.pop() {
            if part.len() < 2 {
                continue;
            }
            let mark = progress.counts();
            match self.read_together(part).await {
                Ok(Some(facts)) => known.extend(facts),
                Ok(None) => progress.back_to(mark),
                Err(error) if error.kind == ErrorKind::ResourcesExhausted => {
                    tracing::info!(cube = %self.name, segments = part.len(), "memory is short; reading fewer at once");
                    progress.back_to(mark);
                    let (first, second) = part.split_at(part.len() / 2);
                    waiting.extend([second, first]);
                }
                Err(error) => {
                    tracing::warn!(cube = %self.name, %error, segments = part.len(), "segments are built one by one");
                    progress.retry(mark, &error);
                }
            }
        }
        known
    }

    async fn read_together(&self, group: &[Work]) -> Result<Option<Vec<RangeFacts>>> {
        let context = self.engine.snapshots.current();
        let cube = find_in(&context, &self.name)?.at(&self.pins);
        let revision = cube.entry.definition.revision;
        let mut wanted = Vec::new();
        for range in group.iter().map(Work::range) {
            let sources = self.sources(&context, &cube, range)?;
            // Files of attempt 1 have other names than those of the segment's own build, which begins with attempt 0.
            wanted.push(WantedSegment {
                range,
                sources,
                revision,
                attempt: 1,
                again: true,
                resume: self.resume,
            });
        }
        drop(context);
        let survey = self.surveyed(&cube).await?;
        build_roots_together(&cube, &wanted, &survey, &self.context).await
    }

    /// Makes one segment. Transient errors are retried.
    pub async fn make(&self, work: &Work) -> Result<()> {
        self.make_one(work, None).await
    }

    async fn make_one(&self, work: &Work, known: Option<&RangeFacts>) -> Result<()> {
        let retries = self.engine.building.config.retries;
        let mut dice = Dice::rolled();
        for attempt in 0.. {
            let mark = self.context.progress.counts();
            match self.attempt((work, known), attempt, attempt < retries).await {
                Err(error) if error.transient && attempt < retries => {
                    let wait = wait_before(attempt + 1, &mut dice);
                    tracing::warn!(cube = %self.name, %error, ?wait, "a build failed for the moment");
                    self.context.progress.retry(mark, &error);
                    tokio::time::sleep(wait).await;
                    self.engine.snapshots.refresh().await?;
                }
                outcome => return outcome,
            }
        }
        Ok(())
    }

    async fn attempt(
        &self,
        (work, known): (&Work, Option<&RangeFacts>),
        attempt: u32,
        again: bool,
    ) -> Result<()> {
        // The cube and the recorded sources must come from the same listing of files.
        let context = self.engine.snapshots.current();
        let cube = find_in(&context, &self.name)?.at(&self.pins);
        let range = work.range();
        let revision = cube.entry.definition.revision;
        let listed = if matches!(work, Work::Empty(_)) { &self.before } else { &context };
        let sources = self.sources(listed, &cube, range)?;
        drop(context);
        let mut wanted = WantedSegment { range, sources, revision, attempt, again, resume: self.resume };
        let made = self.carry_out((work, known), &cube, &mut wanted).await;
        match made {
            // If files changed meanwhile, that is taken for the cause, and is the error.
            Err(error) if is_of_rows(error.kind) => {
                self.check_unchanged(&cube, &wanted).await.map_err(|changed| match changed.transient {
                    true => error.clone(),
                    false => changed,
                })?;
                Err(error)
            }
            made => made,
        }?;
        self.engine.snapshots.refresh().await
    }

    async fn carry_out(
        &self,
        (work, known): (&Work, Option<&RangeFacts>),
        cube: &ReadyCube,
        wanted: &mut WantedSegment,
    ) -> Result<()> {
        let context = &self.context;
        let built = match work {
            Work::Build(_) => {
                let survey = self.surveyed(cube).await?;
                build(cube, wanted, (&survey, known), context).await?
            }
            // If rows came since the range was listed, the recorded range is stale at once.
            Work::Empty(_) => return record_gap(cube, wanted, context).await?.publish().await,
            Work::Merge(_, ids) => {
                let segments: Vec<SegmentEntry> =
                    cube.entry.segments.iter().filter(|s| ids.contains(&s.id)).cloned().collect();
                merge(cube, wanted, &segments, context).await?
            }
            Work::Extend(_, id) => {
                let segment = cube.entry.segments.iter().find(|segment| segment.id == *id);
                let segment = segment.ok_or_else(|| QueryError::internal("a segment is gone"))?;
                // New cells must come from the same rows as the old ones.
                wanted.sources.clone_from(&segment.sources);
                return extend(cube, segment, context, self.check_unchanged(cube, wanted)).await;
            }
        };
        self.check_unchanged(cube, wanted).await?;
        built.publish().await
    }
}

/// Waits grow, and vary at random by 20 %: jobs that failed together do not retry together.
pub fn wait_before(attempt: u32, dice: &mut Dice) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(5_u32.saturating_pow(attempt.saturating_sub(1))).min(MAX_WAIT);
    let percent = 80 + u32::try_from(dice.below(40)).unwrap_or_default();
    wait * percent / 100
}

/// Whether rows that changed while they were read may have caused such an error.
fn is_of_rows(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Data
            | ErrorKind::InvalidValue
            | ErrorKind::InvalidTime
            | ErrorKind::OutOfRange
            | ErrorKind::Cardinality
            | ErrorKind::DivisionByZero
            | ErrorKind::Unreadable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut dice = Dice::rolled();
        for (attempt, seconds) in [(1, 1.0), (2, 5.0), (3, 25.0), (4, 125.0), (20, 125.0)] {
            let wait = wait_before(attempt, &mut dice).as_secs_f64();
            assert!((0.8..1.2).contains(&(wait / seconds)), "{attempt}: {wait}");
        }
    }
}
