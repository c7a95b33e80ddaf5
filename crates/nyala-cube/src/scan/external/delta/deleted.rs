//! Rows of a file that are deleted.

use std::sync::Arc;

use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

/// The rows of a file that are not deleted, and a digest of the deleted ones.
#[derive(Debug, Clone)]
pub struct DeletedRows {
    left: Arc<ParquetRowSelection>,
    count: u64,
    digest: blake3::Hash,
}

impl DeletedRows {
    /// Rows of a file by their numbers, which are sorted; none if they do not lie within the file's `rows`.
    pub fn new(deleted: &[u64], rows: u64) -> Option<Self> {
        let (mut selectors, mut next, mut digest) = (Vec::<RowSelector>::new(), 0, blake3::Hasher::new());
        for &row in deleted {
            digest.update(&row.to_le_bytes());
            let left = usize::try_from(row.checked_sub(next)?).ok()?;
            if left > 0 {
                selectors.push(RowSelector::select(left));
            }
            match selectors.last_mut().filter(|last| last.skip) {
                Some(last) => last.row_count += 1,
                None => selectors.push(RowSelector::skip(1)),
            }
            next = row + 1;
        }
        let left = usize::try_from(rows.checked_sub(next)?).ok()?;
        if left > 0 {
            selectors.push(RowSelector::select(left));
        }
        let left = Arc::new(ParquetRowSelection::new(RowSelection::from(selectors)));
        let count = deleted.len() as u64;
        Some(Self { left, count, digest: digest.finalize() })
    }

    /// Tells two sets of deleted rows of one file apart. Caches compare it as a part of the file's tag.
    pub fn tag(&self) -> String {
        format!("without {} rows {}", self.count, self.digest.to_hex())
    }

    /// The other rows, for a scan. Scans share them: there may be a part for each row of the file.
    pub fn selection(&self) -> Arc<ParquetRowSelection> {
        Arc::clone(&self.left)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_other_rows_are_selected() {
        let check = |deleted: &[u64], rows: u64, expected: &[(usize, bool)]| {
            let found = DeletedRows::new(deleted, rows).unwrap();
            let selectors: Vec<(usize, bool)> =
                found.selection().selection().iter().map(|part| (part.row_count, part.skip)).collect();
            assert_eq!(selectors, expected);
        };
        check(&[], 3, &[(3, false)]);
        check(&[0, 1, 2], 3, &[(3, true)]);
        check(&[1, 2, 4], 6, &[(1, false), (2, true), (1, false), (1, true), (1, false)]);
        assert!(DeletedRows::new(&[3], 3).is_none());
        assert!(DeletedRows::new(&[1, 1], 3).is_none());
        let tag = |rows: &[u64]| DeletedRows::new(rows, 9).unwrap().tag();
        assert_ne!(tag(&[1]), tag(&[2]));
    }
}
