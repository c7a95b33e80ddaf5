//! Groups told apart by the keys of their dimensions.

use hashbrown::HashTable;

use crate::scan::hot::cuboid::HotCuboid;
use crate::scan::hot::selection::Selection;

/// How the keys of some columns fit into one number.
#[derive(Debug)]
pub struct Packing {
    /// Position of each column in the schema of the cuboid, and the bits its keys take.
    columns: Vec<(usize, u32)>,
}

/// The groups of some rows.
#[derive(Debug, PartialEq)]
pub struct Groups {
    /// The group of each row.
    pub(super) of_row: Vec<usize>,
    /// The packed keys of each group.
    pub(super) keys: Vec<u64>,
}

impl Packing {
    /// None if a column has no dictionary, or if its keys do not fit into 64 bits together with the others.
    pub fn of(positions: &[usize], cuboid: &HotCuboid) -> Option<Self> {
        let columns = positions.iter().map(|at| {
            let (_, values) = cuboid.column(*at)?.stored.folds()?;
            Some((*at, bits(values.len())))
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let fits = columns.iter().map(|(_, bits)| bits).sum::<u32>() <= u64::BITS;
        fits.then_some(Self { columns })
    }

    /// The groups of some rows, in the order of their first rows.
    pub fn groups(&self, cuboid: &HotCuboid, rows: &Selection) -> Groups {
        let mut packed = vec![0_u64; rows.rows()];
        for (position, bits) in &self.columns {
            if let Some(column) = cuboid.column(*position) {
                column.stored.each_key(rows, |row, key| {
                    if let Some(packed) = packed.get_mut(row) {
                        *packed = packed.checked_shl(*bits).unwrap_or(0) | u64::from(key);
                    }
                });
            }
        }
        number(packed)
    }

    /// The keys of one column in each group.
    pub fn unpack(&self, position: usize, groups: &[u64]) -> Option<Vec<u32>> {
        let at = self.columns.iter().position(|(column, _)| *column == position)?;
        let (_, bits) = self.columns.get(at)?;
        let below: u32 = self.columns.get(at + 1..)?.iter().map(|(_, bits)| bits).sum();
        let mask = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
        let key = |packed: &u64| (packed.checked_shr(below).unwrap_or(0) & mask) as u32;
        Some(groups.iter().map(key).collect())
    }
}

/// Bits that keys below `count` take.
pub fn bits(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

fn number(packed: Vec<u64>) -> Groups {
    let mut known: HashTable<u32> = HashTable::with_capacity(packed.len().min(1024));
    let mut groups = Groups { of_row: Vec::with_capacity(packed.len()), keys: Vec::new() };
    // Cells are sorted: often one is of the group of the one before.
    let mut last: Option<(u64, usize)> = None;
    for key in packed {
        let group = match last {
            Some((same, group)) if same == key => group,
            _ => {
                let keys = &mut groups.keys;
                let of_group = |group: &u32| keys.get(*group as usize).copied().unwrap_or_default();
                let found = known.find(hash(key), |group| of_group(group) == key);
                if let Some(group) = found {
                    *group as usize
                } else {
                    let next = keys.len();
                    known.insert_unique(hash(key), next as u32, |group| hash(of_group(group)));
                    keys.push(key);
                    next
                }
            }
        };
        last = Some((key, group));
        groups.of_row.push(group);
    }
    groups
}

/// Keys are small numbers in adjacent bits: a multiplication spreads the bits, and both halves of the product are used.
fn hash(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    (wide >> u64::BITS) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_one_group() {
        let groups = number(vec![7, 7, 9, 7, 0, u64::MAX, 9]);
        assert_eq!(groups, Groups { of_row: vec![0, 0, 1, 0, 2, 3, 1], keys: vec![7, 9, 0, u64::MAX] });
        assert_eq!(number(Vec::new()), Groups { of_row: Vec::new(), keys: Vec::new() });
        let many = number((0..100_000).map(|row| row % 7_001).collect());
        assert_eq!(many.keys, (0..7_001).collect::<Vec<_>>());
        assert!(many.of_row.iter().enumerate().all(|(row, group)| *group == row % 7_001));
    }

    #[test]
    fn packed_keys_come_back() {
        let packing = Packing { columns: vec![(4, 3), (2, 0), (9, 32), (1, 29)] };
        let packed = (5 << 61) | (u64::from(u32::MAX) << 29) | 11;
        let check = |position, expected| assert_eq!(packing.unpack(position, &[packed]), expected);
        check(4, Some(vec![5]));
        check(2, Some(vec![0]));
        check(9, Some(vec![u32::MAX]));
        check(1, Some(vec![11]));
        check(3, None);
    }

    #[test]
    fn bits_that_keys_take() {
        for (count, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (256, 8), (257, 9)] {
            assert_eq!(bits(count), expected, "{count}");
        }
    }
}
