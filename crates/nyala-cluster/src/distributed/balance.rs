//! Chooses the executor that does all of a query.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nyala_model::NodeId;

/// After this long, half of the bytes that a node was given to read count no more. With a minute, one large query was much of the sum,
/// and one of three nodes read 1.27 times the mean.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// A node that was given more than this times the mean gets nothing until the others have caught up.
const MOST: f64 = 1.05;

/// A node that is new, or was away, begins with this part of the mean: it gets the next queries, and not all until it has caught up.
const FRESH: f64 = 0.8;

/// The bytes that this coordinator has lately given each executor to read. Each coordinator balances its own.
#[derive(Debug, Default)]
pub struct Balance(Mutex<HashMap<NodeId, Given>>);

#[derive(Debug, Clone, Copy)]
struct Given {
    bytes: f64,
    at: Instant,
}

impl Given {
    fn bytes(self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        // Loads that have decayed to less than a byte count as equal.
        (self.bytes * (-age / HALF_LIFE.as_secs_f64()).exp2()).floor()
    }
}

impl Balance {
    /// Chooses the node that gets a query that reads `bytes`, and returns its number: of the nodes that were not given more than their part,
    /// the one that is the home of the most bytes of the query's files. `at_home` has the bytes of each node. None if there are no nodes.
    pub fn choose(&self, nodes: &[NodeId], at_home: &[u64], bytes: u64, now: Instant) -> Option<usize> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|node, _| nodes.contains(node));
        let fresh = Given { bytes: FRESH * mean(known.values().map(|given| given.bytes(now))), at: now };
        let mut load = |node: &NodeId| known.entry(node.clone()).or_insert(fresh).bytes(now);
        let loads: Vec<f64> = nodes.iter().map(&mut load).collect();
        let mean = mean(loads.iter().copied());
        let free = loads.iter().zip(at_home).enumerate().filter(|(_, (load, _))| **load <= MOST * mean);
        let (number, (load, _)) = free.max_by_key(|(_, (_, home_bytes))| **home_bytes)?;
        known.insert(nodes.get(number)?.clone(), Given { bytes: load + bytes as f64, at: now });
        Some(number)
    }
}

/// The mean of values; 0 if there are none.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn nodes() -> Vec<NodeId> {
        ["a", "b", "c"].map(|name| NodeId(name.to_owned())).to_vec()
    }

    #[test]
    fn the_home_of_the_most_bytes_gets_a_query_unless_it_was_given_too_much() {
        let (balance, now) = (Balance::default(), Instant::now());
        let chosen: Vec<usize> =
            (0..300).map(|_| balance.choose(&nodes(), &[1, 9, 5], 1000, now).unwrap()).collect();
        assert_eq!(chosen[..3], [1, 2, 0], "one after the other while all were given nothing");
        for node in 0..3 {
            let count = chosen.iter().filter(|chosen| **chosen == node).count();
            assert!((88..=106).contains(&count), "node {node} got {count} of 300");
        }
    }

    #[test]
    fn a_node_that_was_away_gets_its_part_and_no_more() {
        let (balance, now, all) = (Balance::default(), Instant::now(), nodes());
        for _ in 0..300 {
            balance.choose(&all[..2], &[5, 9], 1000, now).unwrap();
        }
        let chosen: Vec<usize> =
            (0..300).map(|_| balance.choose(&all, &[1, 9, 5], 1000, now).unwrap()).collect();
        let count = chosen.iter().filter(|chosen| **chosen == 2).count();
        assert_eq!(chosen.first(), Some(&2));
        assert!((95..=140).contains(&count), "{count} of 300");
    }

    #[test]
    fn what_was_given_long_ago_counts_no_more() {
        let (balance, now) = (Balance::default(), Instant::now());
        assert_eq!(balance.choose(&nodes(), &[1, 9, 5], 1000, now), Some(1));
        assert_eq!(balance.choose(&nodes(), &[1, 9, 5], 1000, now), Some(2));
        assert_eq!(balance.choose(&nodes(), &[1, 9, 5], 1000, now + HALF_LIFE * 20), Some(1));
        assert_eq!(balance.choose(&[], &[], 1000, now), None);
    }
}
