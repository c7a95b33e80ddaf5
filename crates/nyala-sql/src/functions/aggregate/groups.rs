//! Any number of groups at once: the form in which DataFusion aggregates and cubes store.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeBinaryBuilder};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::kind::Kind;
use crate::error::QueryError;

/// A group that knows its memory on the heap.
pub trait Measured {
    /// Bytes on the heap. It is called for each row, so it must not walk over the data.
    fn heap_bytes(&self) -> usize;
}

/// Groups by number, and their memory.
#[derive(Debug)]
pub struct GroupList<G> {
    groups: Vec<G>,
    heap_bytes: usize,
}

impl<G: Default + Measured> GroupList<G> {
    /// An empty list.
    pub fn new() -> Self {
        Self { groups: Vec::new(), heap_bytes: 0 }
    }

    /// Makes sure that there are `count` groups.
    pub fn grow(&mut self, count: usize) {
        if count > self.groups.len() {
            self.groups.resize_with(count, G::default);
        }
    }

    /// Changes one group and updates the count of memory.
    #[inline]
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut G) -> Result<()>) -> Result<()> {
        let group = self.groups.get_mut(index);
        let group = group.ok_or_else(|| QueryError::internal(format!("there is no group {index}")))?;
        let before = group.heap_bytes();
        let changed = change(group);
        self.heap_bytes = self.heap_bytes.saturating_add(group.heap_bytes()).saturating_sub(before);
        changed
    }

    /// All groups, to compute their results.
    pub fn all(&mut self) -> &mut [G] {
        &mut self.groups
    }

    fn take(&mut self, emit: EmitTo) -> Vec<G> {
        let taken = emit.take_needed(&mut self.groups);
        let freed: usize = taken.iter().map(Measured::heap_bytes).sum();
        self.heap_bytes = self.heap_bytes.saturating_sub(freed);
        taken
    }

    /// Weighs all groups anew.
    fn weigh(&mut self) {
        self.heap_bytes = self.groups.iter().map(Measured::heap_bytes).sum();
    }

    /// Bytes of the list and of its groups.
    pub fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<G>() + self.heap_bytes
    }
}

/// The rows of a batch that count, with the group of each.
#[derive(Debug)]
pub struct Rows<'a> {
    groups: &'a [usize],
    counted: Option<NullBuffer>,
}

impl<'a> Rows<'a> {
    /// Rows that pass the filter, with a value other than null.
    pub fn new(values: &[ArrayRef], groups: &'a [usize], filter: Option<&BooleanArray>) -> Self {
        let passing = filter.map(|filter| match filter.nulls() {
            Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
            None => NullBuffer::new(filter.values().clone()),
        });
        let present = values.first().and_then(|values| values.logical_nulls());
        Self { groups, counted: NullBuffer::union(passing.as_ref(), present.as_ref()) }
    }

    /// Calls with the number of each row and of its group.
    #[inline]
    pub fn for_each(&self, mut each: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
        let Some(counted) = &self.counted else {
            return self.groups.iter().enumerate().try_for_each(|(row, group)| each(row, *group));
        };
        for row in counted.valid_indices() {
            if let Some(group) = self.groups.get(row) {
                each(row, *group)?;
            }
        }
        Ok(())
    }
}

/// A [`Kind`] over any number of groups.
#[derive(Debug)]
pub struct Grouped<K: Kind> {
    kind: K,
    groups: GroupList<K::Group>,
}

impl<K: Kind> Grouped<K> {
    /// An aggregation without groups yet.
    pub fn new(kind: K) -> Self {
        Self { kind, groups: GroupList::new() }
    }

    fn take(&mut self, emit: EmitTo) -> Vec<K::Group> {
        self.groups.take(emit)
    }

    /// Frees data that the groups share, if no group or few groups are left.
    fn tidy(&mut self) -> Result<()> {
        if self.groups.all().is_empty() {
            self.kind = self.kind.fresh();
        } else if self.kind.forget(self.groups.all())? {
            self.groups.weigh();
        }
        Ok(())
    }
}

impl<K: Kind> GroupsAccumulator for Grouped<K> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups.grow(total_num_groups);
        let rows = Rows::new(values, group_indices, opt_filter);
        self.kind.update(&mut self.groups, &rows, values)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups.grow(total_num_groups);
        merge(&mut self.kind, &mut self.groups, values, group_indices)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut taken = self.take(emit_to);
        let values = self.kind.finish(&mut taken)?;
        self.tidy()?;
        Ok(values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut taken = self.take(emit_to);
        let states = encode(&self.kind, &mut taken)?;
        self.tidy()?;
        Ok(vec![states])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        states_of_rows(Self::new(self.kind.fresh()), values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.groups.bytes() + self.kind.shared_bytes()
    }
}

/// The states of rows that each are a group of their own, made by an accumulator without groups.
pub fn states_of_rows(
    mut groups: impl GroupsAccumulator,
    values: &[ArrayRef],
    filter: Option<&BooleanArray>,
) -> Result<Vec<ArrayRef>> {
    let rows = values.first().map_or(0, |column| column.len());
    let each: Vec<usize> = (0..rows).collect();
    groups.update_batch(values, &each, filter, rows)?;
    groups.state(EmitTo::All)
}

/// Merges a column of states.
pub fn merge<K: Kind>(
    kind: &mut K,
    groups: &mut GroupList<K::Group>,
    states: &[ArrayRef],
    indices: &[usize],
) -> Result<()> {
    let states = states.first().and_then(|states| states.as_binary_opt::<i64>());
    let states = states.ok_or_else(|| QueryError::internal("a state is not a column of bytes"))?;
    for (state, index) in states.iter().zip(indices) {
        if let Some(state) = state {
            groups.change(*index, |group| kind.merge(group, state))?;
        }
    }
    Ok(())
}

/// The states of groups as a column. Its offsets have 64 bits: many large states exceed 2 GiB together.
pub fn encode<K: Kind>(kind: &K, groups: &mut [K::Group]) -> Result<ArrayRef> {
    let mut states = LargeBinaryBuilder::with_capacity(groups.len(), 0);
    let mut bytes = Vec::new();
    for group in groups {
        bytes.clear();
        kind.encode(group, &mut bytes)?;
        states.append_value(&bytes);
    }
    Ok(Arc::new(states.finish()))
}
