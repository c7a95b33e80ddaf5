//! Cubes that no recorded query needs.

use nyala_model::{CatalogSnapshot, CubeEntry, QueryHistoryEntry, SegmentState};

/// Different queries over its fact table that a cube must have left to others before it is called unused.
const MIN_SHAPES: usize = 20;

/// A cube to drop.
pub struct Unneeded<'a> {
    pub cube: &'a CubeEntry,
    pub reason: String,
}

/// Cubes of `snapshot` that are the same as another one, or that none of many queries read since they were built. One that is
/// switched off is neither: no query could read it.
pub fn unneeded<'a>(snapshot: &'a CatalogSnapshot, history: &[&QueryHistoryEntry]) -> Vec<Unneeded<'a>> {
    let answering = snapshot.cubes.values().filter(|cube| cube.definition.options.answers);
    let cubes: Vec<&CubeEntry> = answering.map(AsRef::as_ref).collect();
    let reason = |(i, cube): (usize, &&'a CubeEntry)| {
        let twin = cubes.iter().take(i).find(|other| is_same(other, cube));
        let reason = match twin {
            Some(twin) => format!("cube `{}` is the same", twin.name),
            None => unread(cube, history)?,
        };
        Some(Unneeded { cube, reason })
    };
    cubes.iter().enumerate().filter_map(reason).collect()
}

fn is_same(one: &CubeEntry, other: &CubeEntry) -> bool {
    one.definition.same_cells(&other.definition) && one.definition.partition == other.definition.partition
}

fn unread(cube: &CubeEntry, history: &[&QueryHistoryEntry]) -> Option<String> {
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
