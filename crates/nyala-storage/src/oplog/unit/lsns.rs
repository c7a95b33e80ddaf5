//! The LSN of every row, as runs: rows of one statement share it.

/// Run `i` begins at row `starts[i]` and has LSN `lsns[i]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lsns {
    pub starts: Vec<u32>,
    pub lsns: Vec<u64>,
}

impl Lsns {
    pub fn one(lsn: u64) -> Self {
        Self { starts: vec![0], lsns: vec![lsn] }
    }

    /// The LSN of a row; 0 before the first run.
    pub fn at(&self, row: u32) -> u64 {
        let run = self.starts.partition_point(|start| *start <= row);
        run.checked_sub(1).and_then(|run| self.lsns.get(run)).copied().unwrap_or_default()
    }

    /// Rows from `row` on have `lsn`.
    pub fn push(&mut self, row: u32, lsn: u64) {
        if self.lsns.last() != Some(&lsn) {
            self.starts.push(row);
            self.lsns.push(lsn);
        }
    }

    /// Appends the runs of rows that follow the first `rows`.
    pub fn append(&mut self, rows: u32, other: &Self) {
        other.runs().for_each(|(start, lsn)| self.push(rows + start, lsn));
    }

    /// First row and LSN of each run.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.starts.iter().copied().zip(self.lsns.iter().copied())
    }

    /// Runs with their ends, of `rows` rows.
    pub fn ranges(&self, rows: u32) -> impl Iterator<Item = (std::ops::Range<u32>, u64)> + '_ {
        let ends = self.starts.iter().skip(1).copied().chain([rows]);
        self.runs().zip(ends).map(|((start, lsn), end)| (start..end, lsn))
    }

    /// Whether these can be the runs of `rows` rows.
    pub fn fit(&self, rows: u32) -> bool {
        let ordered = self.starts.windows(2).all(|pair| pair.first() < pair.last());
        let first = self.starts.first() == Some(&0) || rows == 0;
        ordered
            && first
            && self.starts.last().is_none_or(|last| *last < rows.max(1))
            && self.starts.len() == self.lsns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_know_their_lsn() {
        let mut lsns = Lsns::one(5);
        lsns.push(2, 5);
        lsns.push(3, 7);
        lsns.append(4, &Lsns::one(9));
        let found: Vec<u64> = (0..6).map(|row| lsns.at(row)).collect();
        assert_eq!(found, [5, 5, 5, 7, 9, 9]);
        assert_eq!(lsns.ranges(6).collect::<Vec<_>>(), [(0..3, 5), (3..4, 7), (4..6, 9)]);
        assert!(lsns.fit(6) && !lsns.fit(4));
    }
}
