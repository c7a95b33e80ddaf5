//! Shapes that one join of tables can answer.

use nyala_model::{QualifiedName, QueryHistoryEntry, QueryShape, ShapeCondition};

/// Shapes over one fact table with joins that agree.
#[derive(Debug, Clone)]
pub struct Star {
    /// The alias of the fact table.
    pub fact: String,
    /// All tables and joins of the shapes, without groups and filters.
    pub join: QueryShape,
    /// The recorded queries.
    pub entries: Vec<QueryHistoryEntry>,
}

/// Divides `entries` into stars. `rows` tells how large a table is: the largest is the fact table. With
/// `exact`, only shapes over the same tables come together.
pub fn stars(
    mut entries: Vec<QueryHistoryEntry>,
    rows: impl Fn(&QualifiedName) -> u64,
    exact: bool,
) -> Vec<Star> {
    // Shapes with most tables first: the others may be parts of them.
    entries.sort_by_key(|e| (std::cmp::Reverse((e.shape.tables.len(), e.total_us)), e.id.clone()));
    let mut stars: Vec<Star> = Vec::new();
    for entry in entries {
        let inner = entry.shape.tables.iter().filter(|table| table.left.is_none());
        let Some(fact) = inner.max_by_key(|table| rows(&table.table)).map(|table| table.alias.clone()) else {
            continue;
        };
        let fits = |star: &&mut Star| {
            star.fact == fact
                && agree(&star.join, &entry.shape)
                && (!exact || star.join.tables.len() == entry.shape.tables.len())
        };
        match stars.iter_mut().find(fits) {
            Some(star) => star.add(entry),
            None => {
                let mut star = Star { fact, join: QueryShape::default(), entries: Vec::new() };
                star.add(entry);
                stars.push(star);
            }
        }
    }
    stars
}

impl Star {
    fn add(&mut self, entry: QueryHistoryEntry) {
        for table in &entry.shape.tables {
            if !self.join.tables.contains(table) {
                self.join.tables.push(table.clone());
            }
        }
        for condition in &entry.shape.joins {
            if !self.join.joins.contains(condition) {
                self.join.joins.push(condition.clone());
            }
        }
        self.entries.push(entry);
    }

    /// The star with some of its shapes, and the tables that these need.
    pub fn with(&self, entries: Vec<QueryHistoryEntry>) -> Self {
        let mut star = Self { fact: self.fact.clone(), join: QueryShape::default(), entries: Vec::new() };
        for entry in entries {
            star.add(entry);
        }
        star
    }
}

/// Whether both join the tables they share in the same way.
fn agree(one: &QueryShape, other: &QueryShape) -> bool {
    let same_tables = one
        .tables
        .iter()
        .all(|table| other.tables.iter().find(|t| t.alias == table.alias).is_none_or(|t| t == table));
    same_tables && shared(one, other) == shared(other, one)
}

/// The joins of `own` among tables that `other` has too.
fn shared<'a>(own: &'a QueryShape, other: &QueryShape) -> Vec<&'a ShapeCondition> {
    let there = |alias: &String| other.tables.iter().any(|table| table.alias == *alias);
    let mut shared: Vec<_> = own.joins.iter().filter(|join| join.aliases.iter().all(there)).collect();
    shared.sort();
    shared
}
