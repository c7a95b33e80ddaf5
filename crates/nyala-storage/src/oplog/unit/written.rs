//! Sets of LSNs, and the rows of a unit that were written at them.

use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use super::{Data, Lsns, UnitView};

/// LSNs, as ascending ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LsnSet(Vec<RangeInclusive<u64>>);

impl LsnSet {
    /// The LSNs of `ranges`, which ascend and do not overlap.
    pub fn new(ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Self {
        Self(ranges.into_iter().filter(|range| !range.is_empty()).collect())
    }

    /// Every LSN up to this one.
    pub fn up_to(last: u64) -> Self {
        Self(vec![0..=last])
    }

    /// The set's ranges, ascending.
    pub fn ranges(&self) -> &[RangeInclusive<u64>] {
        &self.0
    }

    fn contains(&self, lsn: u64) -> bool {
        self.0.iter().any(|range| range.contains(&lsn))
    }

    /// The part of the LSNs between these bounds that is in the set: all, some or none.
    fn share(&self, (lowest, highest): (u64, u64)) -> Share {
        if self.0.iter().any(|range| *range.start() <= lowest && highest <= *range.end()) {
            Share::All
        } else if self.0.iter().all(|range| *range.end() < lowest || highest < *range.start()) {
            Share::None
        } else {
            Share::Some
        }
    }
}

enum Share {
    None,
    Some,
    All,
}

/// The lowest and the highest of some LSNs, and whether they ascend. Computed at first use.
#[derive(Debug, Default)]
pub struct LsnSpan(OnceLock<(u64, u64, bool)>);

impl LsnSpan {
    fn of(&self, lsns: &Lsns) -> (u64, u64, bool) {
        *self.0.get_or_init(|| {
            let lowest = lsns.lsns.iter().min().copied().unwrap_or_default();
            let highest = lsns.lsns.iter().max().copied().unwrap_or_default();
            (lowest, highest, lsns.lsns.is_sorted())
        })
    }
}

impl LsnSpan {
    /// Whether none of the LSNs is `wanted`.
    pub(super) fn is_outside(&self, lsns: &Lsns, wanted: &LsnSet) -> bool {
        let (lowest, highest, _) = self.of(lsns);
        matches!(wanted.share((lowest, highest)), Share::None)
    }
}

/// Consecutive rows of a chunk or base, with their LSNs.
struct Stretch<'a> {
    /// Position of the first row in the unit.
    start: u32,
    rows: u32,
    lsns: &'a Lsns,
    span: &'a LsnSpan,
}

impl Stretch<'_> {
    /// Ranges of the rows that were written at `wanted`, counted from the first row.
    fn written(&self, wanted: &LsnSet) -> Vec<Range<u32>> {
        if self.rows == 0 {
            return Vec::new();
        }
        let (lowest, highest, sorted) = self.span.of(self.lsns);
        match wanted.share((lowest, highest)) {
            Share::None => Vec::new(),
            Share::All => std::iter::once(0..self.rows).collect(),
            Share::Some if sorted => wanted.0.iter().map(|range| self.between(range)).collect(),
            Share::Some => {
                let runs = self.lsns.ranges(self.rows);
                runs.filter(|(_, lsn)| wanted.contains(*lsn)).map(|(rows, _)| rows).collect()
            }
        }
    }

    /// The rows of one range of LSNs, if LSNs ascend.
    fn between(&self, range: &RangeInclusive<u64>) -> Range<u32> {
        let first_row = |run: usize| self.lsns.starts.get(run).copied().unwrap_or(self.rows);
        let from = self.lsns.lsns.partition_point(|lsn| lsn < range.start());
        let to = self.lsns.lsns.partition_point(|lsn| lsn <= range.end());
        first_row(from)..first_row(to)
    }
}

impl Data {
    /// Rows that were written at `wanted`, by position. No value is read.
    pub(super) fn written(&self, wanted: &LsnSet) -> impl Iterator<Item = Range<u32>> {
        self.stretches().flat_map(move |stretch| {
            let start = stretch.start;
            stretch.written(wanted).into_iter().map(move |rows| start + rows.start..start + rows.end)
        })
    }

    fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let base = self.base.iter().map(|base| Stretch {
            start: 0,
            rows: base.rows(),
            lsns: &base.lsns,
            span: &base.lsn_span,
        });
        let chunks = self.chunks.iter().map(|(start, chunk)| Stretch {
            start: *start,
            rows: chunk.rows,
            lsns: &chunk.lsns,
            span: &chunk.lsn_span,
        });
        base.chain(chunks)
    }
}

impl UnitView {
    /// How many live rows of the unit were written at `wanted`. No value is read.
    pub(crate) fn live_written(&self, wanted: &LsnSet) -> u64 {
        self.data.written(wanted).map(|rows| self.live_among(rows)).sum()
    }

    fn live_among(&self, rows: Range<u32>) -> u64 {
        u64::from(rows.end.saturating_sub(rows.start)) - u64::from(self.dead.count_among(rows))
    }

    /// Lowest and highest LSN of the unit's rows, dead ones included; none if it has no rows.
    pub(crate) fn lsn_bounds(&self) -> Option<(u64, u64)> {
        let bounds = self.data.stretches().filter(|stretch| stretch.rows > 0).map(|stretch| {
            let (lowest, highest, _) = stretch.span.of(stretch.lsns);
            (lowest, highest)
        });
        bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }
}

/// Bit 1 for each of `rows` rows, from row `from` of a chunk or base, that was written at `wanted`; none if all were.
pub fn written_mask(
    (lsns, span): (&Lsns, &LsnSpan),
    (from, rows, all): (u32, u32, u32),
    wanted: &LsnSet,
) -> Option<BooleanBuffer> {
    let stretch = Stretch { start: 0, rows: all, lsns, span };
    let (mut mask, mut at, end) = (BooleanBufferBuilder::new(rows as usize), from, from + rows);
    let mut set = 0;
    for range in stretch.written(wanted) {
        let (first, last) = (range.start.clamp(at, end), range.end.clamp(at, end));
        mask.append_n((first - at) as usize, false);
        mask.append_n((last - first) as usize, true);
        set += last - first;
        at = last;
    }
    mask.append_n((end - at) as usize, false);
    (set < rows).then(|| mask.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsns(rows: &[u64]) -> Lsns {
        let mut lsns = Lsns::default();
        rows.iter().zip(0..).for_each(|(lsn, row)| lsns.push(row, *lsn));
        lsns
    }

    fn check(rows: &[u64], wanted: &LsnSet, expected: &[u32]) {
        let (lsns, span, all) = (lsns(rows), LsnSpan::default(), rows.len() as u32);
        for from in 0..all {
            let mask = written_mask((&lsns, &span), (from, all - from, all), wanted);
            let found =
                (from..all).filter(|row| mask.as_ref().is_none_or(|m| m.value((row - from) as usize)));
            let expected: Vec<u32> = expected.iter().copied().filter(|row| *row >= from).collect();
            assert_eq!(found.collect::<Vec<_>>(), expected, "{rows:?} {wanted:?} from {from}");
        }
    }

    #[test]
    fn rows_are_found_by_when_they_were_written() {
        let some = LsnSet::new([3..=4, 7..=8]);
        check(&[1, 1, 3, 3, 4, 6, 7, 9], &some, &[2, 3, 4, 6]);
        check(&[9, 4, 1, 7, 7], &some, &[1, 3, 4]);
        check(&[3, 4, 4], &some, &[0, 1, 2]);
        check(&[5, 6], &some, &[]);
        check(&[5, 6], &LsnSet::up_to(5), &[0]);
        check(&[5, 6], &LsnSet::default(), &[]);
    }
}
