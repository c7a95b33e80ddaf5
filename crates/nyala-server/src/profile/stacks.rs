//! Call stacks, each with a weight.

use std::collections::BTreeMap;
use std::time::Duration;

/// The unit of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// CPU time.
    Nanoseconds,
    /// Memory that is in use.
    Bytes,
}

impl Unit {
    /// A weight, for people.
    pub(super) fn show(self, weight: u64) -> String {
        match self {
            Self::Nanoseconds => format!("{:.0} ms", weight as f64 / 1e6),
            Self::Bytes => format!("{:.2} MB", weight as f64 / 1e6),
        }
    }
}

/// A profile of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The unit of the weights.
    pub unit: Unit,
    /// The weight that one sample stands for.
    pub period: u64,
    /// How long the process was watched; zero for a snapshot.
    pub duration: Duration,
    /// Weights by stack, the outermost function first.
    stacks: BTreeMap<Vec<String>, u64>,
}

impl Profile {
    /// A profile without samples.
    pub fn new(unit: Unit, period: u64, duration: Duration) -> Self {
        Self { unit, period, duration, stacks: BTreeMap::new() }
    }

    /// Adds to the weight of a stack.
    pub fn add(&mut self, stack: Vec<String>, weight: u64) {
        let sum = self.stacks.entry(stack).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// Stacks with their weights. Stacks that begin with the same functions are next to each other.
    pub fn stacks(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_slice(), *weight))
    }

    /// The weight of everything.
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }

    /// One line for each stack: functions between semicolons, a space, the weight. The format of speedscope, inferno
    /// and FlameGraph.
    pub fn folded(&self) -> String {
        // A semicolon in a name, as in `[u8; 4]`, would cut it in two.
        let frame = |name: &String| name.replace(';', ":");
        let line = |(stack, weight): (&[String], u64)| {
            format!("{} {weight}\n", stack.iter().map(frame).collect::<Vec<_>>().join(";"))
        };
        self.stacks().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn equal_stacks_add_up_and_names_stay_whole() {
        let mut profile = Profile::new(Unit::Bytes, 1, Duration::ZERO);
        let stack = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        profile.add(stack(&["main", "f::<[u8; 4]>"]), 2);
        profile.add(stack(&["main"]), 1);
        profile.add(stack(&["main", "f::<[u8; 4]>"]), 3);
        assert_eq!(profile.total(), 6);
        assert_eq!(profile.folded(), "main 1\nmain;f::<[u8: 4]> 5\n");
    }
}
