//! Upkeep of segments: the oldest are dropped, and neighbours are merged.

use chrono::{Datelike, Months};

use crate::coverage::KeySet;
use crate::ids::SegmentId;
use crate::range::{KeyRange, RangePartition, Step, date_of};

/// Days from 0001-01-01, which chrono counts from 1, to 1970-01-01.
const EPOCH_DAYS_FROM_CE: i64 = 719_163;
/// Ranges of a wider step that are sampled to check whether narrower ranges fill it.
const NESTED_SAMPLES: usize = 60;

impl RangePartition {
    /// The key one `step` before `key`; none if it exceeds the calendar or 64 bits.
    pub fn back(&self, key: i64, step: Step) -> Option<i64> {
        match step {
            Step::Keys(n) => key.checked_sub(n),
            Step::Days(n) => self.key_of_day(self.day_of(key)?.checked_sub(n)?),
            Step::Months(n) => {
                let date = date_of(self.day_of(key)?)?;
                let before = date.checked_sub_months(Months::new(u32::try_from(n).ok()?))?;
                self.key_of_day(i64::from(before.num_days_from_ce()) - EPOCH_DAYS_FROM_CE)
            }
        }
    }

    /// The first key to keep if segments end before `newest`; none if all are kept.
    pub fn kept_from(&self, newest: i64, retention: Option<Step>) -> Option<i64> {
        self.back(newest, retention?)
    }

    /// Whether several ranges of this division fill each range of `wider` exactly.
    pub fn fills(&self, wider: Step) -> bool {
        let wide = Self { step: wider, ..self.clone() };
        let Some(mut range) = self.key_of_date(0).or(Some(0)).and_then(|key| wide.range_of(key)) else {
            return false;
        };
        for _ in 0..NESTED_SAMPLES {
            let first = self.range_of(range.from);
            let several = first.is_some_and(|first| first.from == range.from && first.to < range.to);
            if !several || !self.is_bound(range.to) {
                return false;
            }
            let Some(next) = wide.range_of(range.to) else { return true };
            range = next;
        }
        true
    }

    /// The next of `segments`, which are complete, usable and sorted, to merge. A range is merged only after
    /// a newer segment has begun: one that still grows would be merged again and again. A hole without `data`
    /// does not prevent a merge.
    pub fn due_merge(
        &self,
        tiers: &[Step],
        segments: &[(KeyRange, SegmentId)],
        data: &KeySet,
    ) -> Option<(KeyRange, Vec<SegmentId>)> {
        let newest = segments.iter().map(|(range, _)| range.from).max()?;
        tiers.iter().find_map(|tier| {
            let tier = Self { step: *tier, ..self.clone() };
            let wide = |(range, _): &(KeyRange, SegmentId)| tier.range_of(range.from);
            let mut before = i64::MIN;
            segments.chunk_by(|a, b| wide(a) == wide(b)).find_map(|group| {
                let (first, last) = (group.first()?, group.last()?);
                let alone = before <= wide(first).map_or(i64::MIN, |wide| wide.from);
                before = last.0.to;
                let wide = wide(first).filter(|wide| alone && last.0.to <= wide.to && wide.to <= newest)?;
                let held: KeySet = group.iter().map(|(range, _)| *range).collect();
                let lacking = KeySet::from(wide).subtract(&held).intersect(data);
                let due = group.len() > 1 && lacking.is_empty();
                due.then(|| (wide, group.iter().map(|(_, id)| *id).collect()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::KeyKind;

    fn division(kind: KeyKind, step: Step) -> RangePartition {
        RangePartition { column: "day".to_owned(), kind, step }
    }

    #[test]
    fn years_back_from_numbers_that_are_dates() {
        let months = division(KeyKind::CalendarInteger, Step::Months(1));
        assert_eq!(months.back(19_980_301, Step::Months(24)), Some(19_960_301));
        assert_eq!(months.back(19_960_229, Step::Months(12)), Some(19_950_228));
        assert_eq!(months.back(19_980_301, Step::Days(1)), Some(19_980_228));
        assert_eq!(months.kept_from(19_980_301, None), None);
        assert_eq!(division(KeyKind::Integer, Step::Keys(10)).back(100, Step::Keys(30)), Some(70));
    }

    #[test]
    fn weeks_do_not_fill_months() {
        let days = division(KeyKind::Date, Step::Days(1));
        let check = |base: &RangePartition, wider, expected| {
            assert_eq!(base.fills(wider), expected, "{} in {wider}", base.step);
        };
        check(&days, Step::Days(7), true);
        check(&days, Step::Months(1), true);
        check(&days, Step::Days(1), false);
        check(&division(KeyKind::Date, Step::Days(7)), Step::Months(1), false);
        check(&division(KeyKind::Date, Step::Months(1)), Step::Months(12), true);
        check(&division(KeyKind::Date, Step::Months(3)), Step::Months(4), false);
        check(&division(KeyKind::Integer, Step::Keys(10)), Step::Keys(1000), true);
        check(&division(KeyKind::Integer, Step::Keys(10)), Step::Keys(25), false);
        let hours = division(KeyKind::Timestamp { per_second: 1000 }, Step::Keys(3_600_000));
        check(&hours, Step::Days(1), true);
    }

    #[test]
    fn only_what_is_over_and_without_holes_is_merged() {
        let tens = division(KeyKind::Integer, Step::Keys(10));
        let segment = |from, to| (KeyRange { from, to }, SegmentId(from.unsigned_abs()));
        let check = |segments: &[(KeyRange, SegmentId)], data: (i64, i64), expected: Option<(i64, i64)>| {
            let data = KeySet::between(data.0, data.1);
            let due = tens.due_merge(&[Step::Keys(30), Step::Keys(60)], segments, &data);
            assert_eq!(due.map(|(range, _)| (range.from, range.to)), expected, "{segments:?}");
        };
        let first = [segment(0, 10), segment(10, 20), segment(20, 30)];
        check(&first, (0, 29), None);
        check(&[&first[..], &[segment(30, 40)]].concat(), (0, 39), Some((0, 30)));
        check(&[segment(0, 10), segment(20, 30), segment(30, 40)], (0, 39), None);
        check(&[segment(0, 10), segment(20, 30), segment(30, 40)], (20, 39), Some((0, 30)));
        check(&[segment(0, 30), segment(30, 60), segment(60, 70)], (0, 69), Some((0, 60)));
        check(&[segment(0, 40), segment(40, 50), segment(60, 70)], (0, 69), None);
    }
}
