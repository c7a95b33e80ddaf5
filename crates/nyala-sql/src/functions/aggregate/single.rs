//! All rows as one group, without GROUP BY or over a window.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::groups::{GroupList, Rows, encode, merge};
use super::kind::Kind;

/// A [`Kind`] over one group. Reading the value keeps the group, because a window reads it after every row.
#[derive(Debug)]
pub struct Single<K: Kind> {
    kind: K,
    groups: GroupList<K::Group>,
}

impl<K: Kind> Single<K> {
    /// A group without rows.
    pub fn new(kind: K) -> Self {
        let mut groups = GroupList::new();
        groups.grow(1);
        Self { kind, groups }
    }
}

impl<K: Kind> Accumulator for Single<K> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let indices = vec![0; rows_of(values)];
        self.kind.update(&mut self.groups, &Rows::new(values, &indices, None), values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        merge(&mut self.kind, &mut self.groups, states, &vec![0; rows_of(states)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.kind.finish(self.groups.all())?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::try_from_array(&encode(&self.kind, self.groups.all())?, 0)?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.groups.bytes() + self.kind.shared_bytes()
    }
}

fn rows_of(columns: &[ArrayRef]) -> usize {
    columns.first().map_or(0, |column| column.len())
}
