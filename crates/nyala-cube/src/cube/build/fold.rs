//! Decides which rows of a live fact table are folded into which segment.
//!
//! ```text
//! LSN       1 ──── 40 │ 41 ──── 60 │ 61 ─── 90 │ 91 ── 97
//! segments  fits      │ outdated   │ fits      │ none
//! BUILD               │ made anew  │           │ made
//! MERGE     ▲ both fit, but there are rows between them ▲
//! ```
//!
//! Old segments are large and new ones small, as in a log-structured merge tree: two neighbours become one when
//! the older is no larger than all newer rows together. So each row is merged a few times only, and there are
//! few segments. None grows beyond [`SEGMENT_ROWS`], since one changed row makes all of its segment outdated.

use nyala_model::{KeyRange, KeySet, SegmentEntry, SegmentId, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::BuildAction;
use nyala_storage::oplog::Version;

use super::wanted::{Work, is_extensible};
use crate::cube::live::lsn_set;
use crate::cube::rewrite::ReadyCube;

/// Rows of a segment at most, where there is a choice.
const SEGMENT_ROWS: u64 = 1 << 22;
/// This many new rows are folded without waiting, unless the cube sets another number.
const FOLD_ROWS: u64 = 100_000;
/// Any number of new rows is folded after this time, unless the cube sets another time.
const FOLD_AFTER_MS: u64 = 60_000;

/// A range of LSNs that is made anew, with the number of its rows.
struct Piece {
    lsns: KeyRange,
    rows: u64,
    /// Whether there is a segment that it replaces.
    replaces: bool,
}

/// The work of `action` for a cube over this version of its fact table.
pub fn fold(cube: &ReadyCube, version: &Version, action: BuildAction) -> Result<Vec<Work>> {
    let Folding { pieces, extended } = match action {
        BuildAction::Build => Folding::of(cube, version, false),
        BuildAction::Refresh => Folding::of(cube, version, true),
        BuildAction::Merge => return merge_all(cube, version),
    };
    let first = ready(cube).next().is_none();
    let wanted = pieces.into_iter().filter(|piece| piece.rows > 0 || piece.replaces || first);
    let built = wanted.map(|piece| Work::Build(SegmentRange::Written(piece.lsns)));
    Ok(built.chain(extended).collect())
}

struct Folding {
    pieces: Vec<Piece>,
    extended: Vec<Work>,
}

impl Folding {
    /// Pieces between the segments that stay. Neighbours become one piece as long as it is not too large.
    fn of(cube: &ReadyCube, version: &Version, all_anew: bool) -> Self {
        let mut folding = Self { pieces: Vec::new(), extended: Vec::new() };
        // A segment that stays separates the pieces before and after it.
        let mut joins = false;
        let mut from = 0;
        for segment in in_order(cube) {
            let SegmentRange::Written(lsns) = segment.range else { continue };
            joins = folding.add_gap(version, KeyRange { from, to: lsns.from }, joins);
            from = lsns.to;
            if all_anew || cube.coverage.why_stale(segment.id).is_some() {
                let piece = Piece { lsns, rows: rows_in(version, lsns), replaces: true };
                folding.add(piece, joins);
                joins = true;
            } else {
                let extend = is_extensible(cube, segment);
                folding.extended.extend(extend.then_some(Work::Extend(segment.range, segment.id)));
                joins = false;
            }
        }
        let end = i64::try_from(version.lsn()).unwrap_or(i64::MAX).saturating_add(1);
        folding.add_gap(version, KeyRange { from, to: end }, joins);
        folding
    }

    /// Adds the LSNs without a segment, cut where storage cuts them. Returns whether the next piece may join them.
    fn add_gap(&mut self, version: &Version, gap: KeyRange, mut joins: bool) -> bool {
        let mut from = gap.from;
        for seam in version.seams() {
            let to = i64::try_from(seam).unwrap_or(i64::MAX).saturating_add(1).min(gap.to);
            if from < to {
                let lsns = KeyRange { from, to };
                self.add(Piece { lsns, rows: rows_in(version, lsns), replaces: false }, joins);
                (from, joins) = (to, true);
            }
        }
        joins
    }

    fn add(&mut self, piece: Piece, joins: bool) {
        match self.pieces.last_mut() {
            Some(last) if joins && last.rows.saturating_add(piece.rows) <= SEGMENT_ROWS => {
                last.lsns.to = piece.lsns.to;
                last.rows += piece.rows;
                last.replaces |= piece.replaces;
            }
            _ => self.pieces.push(piece),
        }
    }
}

/// Merges all segments into one, if all fit and there are no rows between them.
fn merge_all(cube: &ReadyCube, version: &Version) -> Result<Vec<Work>> {
    let refused = |message: String, hint: &str| {
        Err(QueryError::new(ErrorKind::InvalidParameter, message).hint(hint.to_owned()))
    };
    if let Some(reason) = in_order(cube).iter().find_map(|segment| cube.coverage.why_stale(segment.id)) {
        return refused(format!("a segment is stale: {reason}"), "run BUILD CUBE first");
    }
    match neighbours(cube, version).as_slice() {
        [] => refused("there is no segment to merge".to_owned(), "run BUILD CUBE first"),
        [run] => Ok(Vec::from_iter(run.merge(0))),
        _ => refused("rows lie between segments that no segment holds".to_owned(), "run BUILD CUBE first"),
    }
}

/// The next automatic merge of segments, if one is due.
pub fn due_fold_merge(cube: &ReadyCube) -> Option<Work> {
    let version = cube.coverage.written()?;
    neighbours(cube, version).iter().rev().find_map(|run| {
        let mut rows = run.0.last()?.rows;
        let mut first = run.0.len() - 1;
        for (at, held) in run.0.iter().enumerate().rev().skip(1) {
            if held.rows > rows || rows.saturating_add(held.rows) > SEGMENT_ROWS {
                break;
            }
            rows += held.rows;
            first = at;
        }
        run.merge(first)
    })
}

/// Segments that are current and complete, without rows between them.
struct Run(Vec<Held>);

struct Held {
    lsns: KeyRange,
    id: SegmentId,
    rows: u64,
}

impl Run {
    /// Merges the segments from `first` on; none if there is only one.
    fn merge(&self, first: usize) -> Option<Work> {
        let parts = self.0.get(first..).filter(|parts| parts.len() > 1)?;
        let lsns = KeyRange { from: parts.first()?.lsns.from, to: parts.last()?.lsns.to };
        Some(Work::Merge(SegmentRange::Written(lsns), parts.iter().map(|held| held.id).collect()))
    }
}

fn neighbours(cube: &ReadyCube, version: &Version) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // The end of the last segment, if it is current: then the next segment may belong to the same run.
    let mut end = None;
    for segment in in_order(cube) {
        let SegmentRange::Written(lsns) = segment.range else { continue };
        let fits = cube.coverage.why_stale(segment.id).is_none()
            && cube.entry.definition.outstanding(segment).is_empty();
        if !fits {
            end = None;
            continue;
        }
        let held = Held { lsns, id: segment.id, rows: rows_in(version, lsns) };
        let follows = end.is_some_and(|end| rows_in(version, KeyRange { from: end, to: lsns.from }) == 0);
        match runs.last_mut() {
            Some(run) if follows => run.0.push(held),
            _ => runs.push(Run(vec![held])),
        }
        end = Some(lsns.to);
    }
    runs
}

/// Whether there are enough new rows, or old enough changes, to fold them now.
pub fn is_fold_due(cube: &ReadyCube, version: &Version, now_ms: u64) -> bool {
    let mut held = KeySet::default();
    let (mut changed, mut built_at_ms) = (false, 0);
    for segment in in_order(cube) {
        if let SegmentRange::Written(lsns) = segment.range {
            held = held.union(&lsns.into());
        }
        changed |= cube.coverage.why_stale(segment.id).is_some()
            || !cube.entry.definition.outstanding(segment).is_empty();
        built_at_ms = built_at_ms.max(segment.built_at_ms);
    }
    let new = version.rows_written(&lsn_set(&KeySet::all().subtract(&held)));
    let options = &cube.entry.definition.options;
    let waited = now_ms.saturating_sub(built_at_ms) >= options.fold_after_ms.unwrap_or(FOLD_AFTER_MS);
    new >= options.fold_rows.unwrap_or(FOLD_ROWS).max(1) || ((changed || new > 0) && waited)
}

fn rows_in(version: &Version, lsns: KeyRange) -> u64 {
    version.rows_written(&lsn_set(&lsns.into()))
}

fn ready(cube: &ReadyCube) -> impl Iterator<Item = &SegmentEntry> {
    cube.entry.segments.iter().filter(|segment| segment.state == SegmentState::Ready)
}

/// The ready segments by their LSNs.
fn in_order(cube: &ReadyCube) -> Vec<&SegmentEntry> {
    let mut segments: Vec<&SegmentEntry> = ready(cube).collect();
    segments.sort_by_key(|segment| match segment.range {
        SegmentRange::Written(lsns) => lsns.from,
        SegmentRange::Whole | SegmentRange::Keys(_) | SegmentRange::Nulls => i64::MIN,
    });
    segments
}
