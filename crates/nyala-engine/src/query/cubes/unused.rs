//! Cubes that no recorded query needs, and cubes that no query may use.

use nyala_model::{CatalogSnapshot, CubeEntry, QueryHistoryEntry, SegmentState};

/// Different queries over its fact table that a cube must have left to others before it is called unused.
const MIN_SHAPES: usize = 20;

/// A cube that queries do not read.
pub struct Unread<'a> {
    pub cube: &'a CubeEntry,
    pub cause: Cause,
}

/// Why queries do not read a cube.
pub enum Cause {
    /// It is switched off. The history cannot tell whether queries would read it.
    Off,
    /// No query needs it, for this reason.
    Unneeded(String),
}

/// Cubes of `snapshot` that are the same as another one, or that none of many queries read since they were built; then those that are
/// switched off.
pub fn unread_cubes<'a>(snapshot: &'a CatalogSnapshot, history: &[&QueryHistoryEntry]) -> Vec<Unread<'a>> {
    let all = snapshot.cubes.values().map(|cube| &**cube);
    let (answering, off): (Vec<&CubeEntry>, Vec<&CubeEntry>) =
        all.partition(|cube: &&CubeEntry| cube.definition.options.answers);
    let to_drop = answering.iter().copied().enumerate().filter_map(|(i, cube)| {
        let twin = answering.iter().take(i).find(|other| is_same(other, cube));
        let reason = match twin {
            Some(twin) => format!("cube `{}` is the same", twin.name),
            None => unneeded(cube, history)?,
        };
        Some(Unread { cube, cause: Cause::Unneeded(reason) })
    });
    let off = off.into_iter().map(|cube| Unread { cube, cause: Cause::Off });
    to_drop.chain(off).collect()
}

fn is_same(one: &CubeEntry, other: &CubeEntry) -> bool {
    one.definition.same_cells(&other.definition) && one.definition.partition == other.definition.partition
}

fn unneeded(cube: &CubeEntry, history: &[&QueryHistoryEntry]) -> Option<String> {
    let ready = cube.segments.iter().filter(|segment| segment.state == SegmentState::Ready);
    let built_at_ms = ready.map(|segment| segment.built_at_ms).min()?;
    let fact = cube.definition.sources.first()?;
    let over = history.iter().filter(|entry| entry.shape.tables.iter().any(|table| table.table == *fact));
    let since: Vec<_> = over.filter(|entry| entry.last_asked_ms > built_at_ms).collect();
    let read = since.iter().any(|entry| entry.answers.iter().any(|answer| answer.cube == cube.id));
    (!read && since.len() >= MIN_SHAPES).then(|| {
        format!("none of {} different queries over `{fact}` read it since it was built", since.len())
    })
}
