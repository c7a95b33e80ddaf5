//! The history in memory: one entry for each shape.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nyala_cube::cube::{Asked, shape_of};
use nyala_model::{CubeId, CuboidUse, QualifiedName, QueryHistoryEntry, QueryShape};

use super::recording::Event;

/// Shapes that are kept; the ones asked longest ago are forgotten.
pub const KEPT: u32 = 1000;
/// Longest shape that is kept, in bytes. It includes aggregated values, which may be long lists.
const SHAPE_BYTES: usize = 32 << 10;
/// Cuboids that are kept for one shape.
const CUBOIDS_KEPT: usize = 32;

/// Entries by id, and the ids that the catalog does not have in this state.
#[derive(Debug, Default)]
pub struct Book {
    entries: HashMap<String, QueryHistoryEntry>,
    changed: HashSet<String>,
}

/// One aggregation, and the cube that answers it.
#[derive(Debug)]
pub struct Answered {
    id: String,
    shape: QueryShape,
    cube: Option<(CubeId, QualifiedName, Vec<Vec<String>>)>,
    reason: Option<String>,
}

/// One aggregation of a query that ended.
pub struct Shaped {
    answered: Arc<Answered>,
    took_us: u64,
    rows: u64,
    at_ms: u64,
}

impl Answered {
    /// An aggregation with its shape; none if it has no shape, or too long a shape.
    pub fn of(asked: &Asked) -> Option<Self> {
        let shape = shape_of(&asked.block)?;
        let text = serde_json::to_vec(&shape).ok().filter(|text| text.len() <= SHAPE_BYTES)?;
        let id = blake3::hash(&text).to_hex().as_str().get(..32)?.to_owned();
        Some(Self { id, shape, cube: asked.cube.clone(), reason: asked.reason.clone() })
    }
}

impl Book {
    /// The aggregations of a query; aggregations without a shape are left out.
    pub fn shape(event: &Event) -> Vec<Shaped> {
        let took_us = u64::try_from(event.took.as_micros()).unwrap_or(u64::MAX);
        let took_us = took_us / event.asked.len().max(1) as u64;
        let answered = event.asked.answered().iter();
        let shaped = answered.map(|answered| Shaped {
            answered: Arc::clone(answered),
            took_us,
            rows: event.rows,
            at_ms: event.at_ms,
        });
        shaped.collect()
    }

    /// Adds the entries that an earlier process stored.
    pub fn load(&mut self, entries: Vec<QueryHistoryEntry>) {
        self.entries.extend(entries.into_iter().map(|entry| (entry.id.clone(), entry)));
    }

    pub fn add(&mut self, shaped: Vec<Shaped>) {
        for one in shaped {
            let answered = Arc::clone(&one.answered);
            if !self.changed.contains(&answered.id) {
                self.changed.insert(answered.id.clone());
            }
            if let Some(entry) = self.entries.get_mut(&answered.id) {
                count(entry, &one);
                continue;
            }
            let entry = self.entries.entry(answered.id.clone()).or_insert_with(|| QueryHistoryEntry {
                id: answered.id.clone(),
                shape: answered.shape.clone(),
                asked: 0,
                total_us: 0,
                max_us: 0,
                rows: 0,
                misses: 0,
                missed_us: 0,
                miss_reason: None,
                last_miss_ms: 0,
                answers: Vec::new(),
                last_asked_ms: 0,
            });
            count(entry, &one);
        }
        while self.entries.len() > KEPT as usize {
            let oldest = self.entries.values().min_by_key(|entry| entry.last_asked_ms);
            let Some(id) = oldest.map(|entry| entry.id.clone()) else { return };
            self.entries.remove(&id);
            self.changed.remove(&id);
        }
    }

    /// Entries that the catalog does not have; the caller stores them.
    pub fn take_changed(&mut self) -> Vec<QueryHistoryEntry> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|id| self.entries.get(id)).cloned().collect()
    }

    /// Marks entries that could not be stored.
    pub fn not_stored(&mut self, entries: &[QueryHistoryEntry]) {
        let known = entries.iter().filter(|entry| self.entries.contains_key(&entry.id));
        self.changed.extend(known.map(|entry| entry.id.clone()));
    }

    /// All entries, the query asked last first.
    pub fn entries(&self) -> Vec<QueryHistoryEntry> {
        let mut entries: Vec<QueryHistoryEntry> = self.entries.values().cloned().collect();
        entries.sort_by(|a, b| b.last_asked_ms.cmp(&a.last_asked_ms).then_with(|| a.id.cmp(&b.id)));
        entries
    }
}

fn count(entry: &mut QueryHistoryEntry, one: &Shaped) {
    entry.asked = entry.asked.saturating_add(1);
    entry.total_us = entry.total_us.saturating_add(one.took_us);
    entry.max_us = entry.max_us.max(one.took_us);
    entry.rows = entry.rows.saturating_add(one.rows);
    entry.last_asked_ms = entry.last_asked_ms.max(one.at_ms);
    let Some((cube, name, cuboids)) = &one.answered.cube else {
        entry.misses = entry.misses.saturating_add(1);
        entry.missed_us = entry.missed_us.saturating_add(one.took_us);
        entry.last_miss_ms = entry.last_miss_ms.max(one.at_ms);
        entry.miss_reason.clone_from(&one.answered.reason);
        return;
    };
    for cuboid in cuboids {
        let known = entry.answers.iter_mut().find(|a| a.cube == *cube && a.cuboid == *cuboid);
        match known {
            Some(answer) => {
                answer.times = answer.times.saturating_add(1);
                answer.last_ms = answer.last_ms.max(one.at_ms);
            }
            None => entry.answers.push(CuboidUse {
                cube: *cube,
                name: name.clone(),
                cuboid: cuboid.clone(),
                times: 1,
                last_ms: one.at_ms,
            }),
        }
    }
    entry.answers.sort_by_key(|answer| std::cmp::Reverse(answer.last_ms));
    entry.answers.truncate(CUBOIDS_KEPT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(n: u64, cube: Option<u64>) -> Shaped {
        let cube = cube.map(|id| (CubeId(id), QualifiedName::new("public", "c"), vec![vec!["a".to_owned()]]));
        let answered = Answered {
            id: n.to_string(),
            shape: QueryShape::default(),
            reason: Some("because".to_owned()).filter(|_| cube.is_none()),
            cube,
        };
        Shaped { answered: Arc::new(answered), took_us: n, rows: 1, at_ms: n }
    }

    #[test]
    fn those_asked_longest_ago_are_forgotten() {
        let mut book = Book::default();
        let last = u64::from(KEPT) + 9;
        book.add((0..=last).map(|n| shaped(n, None)).collect());
        let entries = book.entries();
        assert_eq!(entries.len(), KEPT as usize);
        assert_eq!(entries.first().map(|entry| entry.last_asked_ms), Some(last));
        assert_eq!(entries.last().map(|entry| entry.last_asked_ms), Some(10));
        assert_eq!(book.take_changed().len(), KEPT as usize);
        assert!(book.take_changed().is_empty());
        book.not_stored(&entries);
        assert_eq!(book.take_changed().len(), KEPT as usize);
    }

    #[test]
    fn hits_and_misses_are_counted_apart() {
        let mut book = Book::default();
        book.add(vec![shaped(5, None), shaped(5, Some(1)), shaped(5, Some(1)), shaped(5, Some(2))]);
        let entries = book.entries();
        let Some(entry) = entries.first() else { unreachable!("an entry was added") };
        assert_eq!((entry.asked, entry.misses, entry.total_us, entry.rows), (4, 1, 20, 4));
        assert_eq!(entry.miss_reason.as_deref(), Some("because"));
        assert_eq!(entry.answers.iter().map(|a| a.times).collect::<Vec<_>>(), [2, 1]);
    }
}
