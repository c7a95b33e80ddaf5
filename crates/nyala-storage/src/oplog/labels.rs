//! Labels of loads: names under which a statement is done once, however often it is sent.
//!
//! A label is in the frame of its statement, so that both are durable or neither is, and in the manifest once the frame
//! is behind a checkpoint. A table knows the newest of its labels, up to a number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::codec::{In, Out};
use super::error::{OplogError, Result};

/// Most bytes of a label.
const NAME_BYTES: usize = 128;

/// The name of a load, unique in its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    name: Arc<str>,
    rejected: u64,
}

/// The effect of the statement of a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Labelled {
    /// LSN of the statement, which is the version of the rows it wrote.
    pub lsn: u64,
    /// Rows that the statement inserted or replaced; a row that came twice counts twice.
    pub rows: u64,
    /// Rows that the client left out of the statement.
    pub rejected: u64,
}

impl Label {
    /// A label of 1 to 128 bytes, without control characters.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
            return Err(OplogError::invalid(format!(
                "a label has 1 to {NAME_BYTES} bytes and no control characters, unlike `{}`",
                name.escape_debug().take(NAME_BYTES).collect::<String>()
            )));
        }
        Ok(Self { name: name.into(), rejected: 0 })
    }

    /// Adds the number of rows that were left out, which a repeated load reports with the other counts.
    pub fn rejecting(mut self, rejected: u64) -> Self {
        self.rejected = rejected;
        self
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The effect of a statement of `rows` rows under this label.
    pub(crate) fn done(&self, lsn: u64, rows: usize) -> Labelled {
        Labelled { lsn, rows: rows as u64, rejected: self.rejected }
    }

    /// Writes the label in front of the rows in a frame.
    pub(crate) fn write(&self, out: &mut Out, rows: usize) {
        out.text(&self.name);
        out.var(rows as u64);
        out.var(self.rejected);
    }
}

/// A label in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLabel<'a> {
    name: &'a str,
    rows: u64,
    rejected: u64,
}

impl<'a> FrameLabel<'a> {
    pub fn read(input: &mut In<'a>) -> Option<Self> {
        let name = std::str::from_utf8(input.blob()?).ok()?;
        Some(Self { name, rows: input.var()?, rejected: input.var()? })
    }

    pub fn name(&self) -> Arc<str> {
        self.name.into()
    }

    pub fn done(&self, lsn: u64) -> Labelled {
        Labelled { lsn, rows: self.rows, rejected: self.rejected }
    }
}

/// The labels that a table knows, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    by_name: HashMap<Arc<str>, Labelled>,
    order: VecDeque<Arc<str>>,
}

impl Labels {
    pub fn get(&self, name: &str) -> Option<Labelled> {
        self.by_name.get(name).copied()
    }

    /// Adds the newest label. A label may come twice in a log, if its first load was forgotten before the second was
    /// written: no label is forgotten while a log is read.
    pub fn add(&mut self, name: Arc<str>, done: Labelled) {
        if self.by_name.insert(name.clone(), done).is_some() {
            self.order.retain(|known| *known != name);
        }
        self.order.push_back(name);
    }

    /// Forgets the oldest labels beyond a number.
    pub fn keep_newest(&mut self, most: usize) {
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.by_name.remove(&oldest);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Labelled)> {
        self.order.iter().map(|name| (name, self.get(name).unwrap_or_default()))
    }

    pub fn write(&self, out: &mut Out) {
        out.var(self.order.len() as u64);
        for (name, done) in self.iter() {
            out.text(name);
            [done.lsn, done.rows, done.rejected].into_iter().for_each(|number| out.var(number));
        }
    }

    pub fn read(input: &mut In<'_>) -> Option<Self> {
        let mut labels = Self::default();
        for _ in 0..input.count()? {
            let name = input.text()?;
            let done = Labelled { lsn: input.var()?, rows: input.var()?, rejected: input.var()? };
            labels.add(name.into(), done);
        }
        Some(labels)
    }
}
