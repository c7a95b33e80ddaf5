//! The entries of lists, by the levels of the columns in them.
//!
//! The columns of a list (of a map: its two) each have the entries in their levels; the reader takes it that they are
//! the same in all.

use parquet::basic::Repetition;
use parquet::schema::types::{SchemaDescriptor, Type};

/// A list: levels of a column that is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries {
    /// Which list of the file it is.
    pub list: usize,
    /// A smaller or equal repetition begins an entry.
    repetition: u32,
    /// With a smaller definition there is none: the list is empty or null.
    definition: u32,
}

/// A hash of the entries of one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// The list.
    pub entries: Entries,
    hash: u64,
}

impl Fingerprint {
    pub(super) fn new(entries: Entries) -> Self {
        Self { entries, hash: 0xcbf2_9ce4_8422_2325 }
    }

    /// Adds the next levels of the column, by FNV-1a.
    pub(super) fn add(&mut self, repetition: u32, definition: u32) {
        if repetition <= self.entries.repetition {
            let said = u64::from(repetition) << 1 | u64::from(definition >= self.entries.definition);
            self.hash = (self.hash ^ said).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The lists that each column is in, outermost first.
pub fn lists_of(schema: &SchemaDescriptor) -> Vec<Vec<Entries>> {
    let mut walk = Walk::default();
    for field in schema.root_schema().get_fields() {
        walk.visit(field, 0, 0);
    }
    walk.columns
}

#[derive(Default)]
struct Walk {
    lists: usize,
    open: Vec<Entries>,
    columns: Vec<Vec<Entries>>,
}

impl Walk {
    /// `repetition` and `definition` are the levels of the parent.
    fn visit(&mut self, node: &Type, mut repetition: u32, mut definition: u32) {
        let kind = node.get_basic_info().has_repetition().then(|| node.get_basic_info().repetition());
        let is_list = kind == Some(Repetition::REPEATED);
        definition += u32::from(is_list || kind == Some(Repetition::OPTIONAL));
        if is_list {
            repetition += 1;
            self.open.push(Entries { list: self.lists, repetition, definition });
            self.lists += 1;
        }
        match node.is_group() {
            true => node.get_fields().iter().for_each(|field| self.visit(field, repetition, definition)),
            false => self.columns.push(self.open.clone()),
        }
        if is_list {
            self.open.pop();
        }
    }
}
