//! Statements that are committed together: one write and one fsync for all.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::inner::Inner;
use super::queue::{Pending, Request};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::labels::Labelled;
use crate::oplog::log::Kind;
use crate::oplog::meta::Durability;
use crate::oplog::table::SharedTable;
use crate::oplog::write::{Condition, HashedRows, PreparedWrite};

/// Bytes of one group, unless a single statement is larger.
const GROUP_BYTES: u64 = 32 << 20;

/// Takes the statements of the next group. Each can be judged by the committed state, without regard to the others: a
/// condition on a key that another statement of the group writes begins a new group, and so does everything that is
/// not a write of rows.
pub fn next_group(waiting: &mut VecDeque<Pending>) -> Vec<Pending> {
    let conditional = waiting.iter().any(|pending| is_conditional(&pending.request));
    let (mut group, mut bytes, mut touched) = (Vec::new(), 0, HashSet::new());
    let mut labels = HashSet::new();
    while let Some(pending) = waiting.pop_front() {
        let Request::Write { table, write, record } = &pending.request else {
            if group.is_empty() {
                return vec![pending];
            }
            waiting.push_front(pending);
            return group;
        };
        let key = |hash: &u64| (Arc::as_ptr(table) as usize, *hash);
        let clash =
            write.condition != Condition::Always && hashes(write).any(|hash| touched.contains(&key(hash)));
        let label = write.label.as_ref().map(|label| (Arc::as_ptr(table) as usize, label.name().clone()));
        // The second statement with a label must see the effect of the first.
        let again = label.is_some_and(|label| !labels.insert(label));
        bytes += record.bytes();
        if clash || again || (bytes > GROUP_BYTES && !group.is_empty()) {
            waiting.push_front(pending);
            return group;
        }
        if conditional {
            touched.extend(hashes(write).map(key));
        }
        group.push(pending);
    }
    group
}

fn is_conditional(request: &Request) -> bool {
    matches!(request, Request::Write { write, .. } if write.condition != Condition::Always)
}

fn hashes(write: &PreparedWrite) -> impl Iterator<Item = &u64> {
    write.deletes.iter().chain(&write.upserts).flat_map(|rows: &HashedRows| &rows.hashes)
}

/// The effect of the earlier statement with the same label.
pub fn done_before(
    inner: &Inner,
    table: &Arc<SharedTable>,
    write: &PreparedWrite,
) -> Result<Option<Labelled>> {
    inner.check_there(table)?;
    Ok(write.label.as_ref().and_then(|label| table.read().labels.get(label.name())))
}

/// Whether a write may be done now; if so, the kind of its frame.
///
/// A start does not read the keys of units to replay a log: it takes keys of one hash for one key, unless the frame
/// says that they may differ. Only keys of units matter here. Keys of statements that are not in a unit yet are in the
/// log too, and compared.
pub fn check(inner: &Inner, table: &Arc<SharedTable>, write: &PreparedWrite) -> Result<Kind> {
    inner.check_there(table)?;
    inner.check_writable(write.upserts.is_none())?;
    let rows = || write.deletes.iter().chain(&write.upserts);
    rows().try_for_each(|rows| table.settle_keys(rows))?;
    let state = table.read();
    state.check_whole()?;
    if state.meta.current()?.number != write.schema.number {
        return Err(OplogError::SchemaChanged { table: state.meta.name.clone() });
    }
    state.check_condition(write)?;
    Ok(if rows().any(|rows| state.collides(rows)) { Kind::WriteExact } else { Kind::Write })
}

/// Whether the group must be on disk before it is acknowledged.
pub fn must_sync(group: &[Pending]) -> bool {
    group.iter().any(|pending| match &pending.request {
        Request::Write { table, .. } => table.meta().durability == Durability::Group,
        _ => true,
    })
}
