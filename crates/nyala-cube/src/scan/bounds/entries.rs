//! The entries of lists, by the levels of the columns in them.
//!
//! The columns of a list (a map has two) repeat its entries in their levels, and the reader takes it that all columns have the
//! same entries.

use parquet::basic::Repetition;
use parquet::schema::types::{SchemaDescriptor, Type};

/// The levels that tell the entries of a list, in a column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries {
    /// Number of the list in the file.
    pub list: usize,
    /// An entry begins where the repetition level is at most this.
    repetition: u32,
    /// Where the definition level is below this, there is no entry: the list is empty or null.
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
