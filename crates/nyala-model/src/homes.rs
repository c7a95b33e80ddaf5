//! The home of each part of a shared file: the node that reads the part, and so has it in its cache.
//!
//! Rendezvous hashing: each node gets a weight for each part, and the node with the largest weight is the home. A node that comes
//! takes its share of the parts from all others, a node that goes leaves its own to all others, and nothing else moves. Other
//! files of a query have no influence on a home: otherwise the next query would look for the part on another node.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::ids::NodeId;

/// Parts that a file of usual size has: few enough to be listed, enough to spread a table of one file over the nodes.
const USUAL_PARTS: u64 = 16;
/// Bytes of the smallest part. A row group is read with the part in which it begins, so that of parts smaller than row groups
/// many are empty.
const MIN_PART_BYTES: u64 = 4 << 20;
/// Bytes of the largest part.
const MAX_PART_BYTES: u64 = 64 << 20;

/// Bytes of the parts of a file with so many bytes. The last part has what is left.
pub const fn part_bytes(file_bytes: u64) -> u64 {
    let bytes = file_bytes / USUAL_PARTS;
    if bytes <= MIN_PART_BYTES {
        MIN_PART_BYTES
    } else if bytes >= MAX_PART_BYTES {
        MAX_PART_BYTES
    } else {
        bytes.next_power_of_two()
    }
}

/// A file, by the hash of its URL, from which its parts are placed.
#[derive(Debug, Clone, Copy)]
pub struct PlacedFile(u64);

impl PlacedFile {
    /// The file with this URL.
    pub fn new(url: &str) -> Self {
        Self(xxh3_64(url.as_bytes()))
    }
}

/// Nodes that read parts of files. The order in which they were given decides nothing but their numbers.
#[derive(Debug, Clone)]
pub struct Homes {
    seeds: Vec<u64>,
}

impl Homes {
    /// Homes among these nodes.
    pub fn among<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> Self {
        Self { seeds: nodes.into_iter().map(|node| xxh3_64(node.0.as_bytes())).collect() }
    }

    /// The number of the node that is the home of a part of a file, by the number of the part; none if there are no nodes.
    pub fn of(&self, file: PlacedFile, part: u64) -> Option<usize> {
        let key = (u128::from(file.0) << 64 | u128::from(part)).to_le_bytes();
        let weights = self.seeds.iter().map(|seed| xxh3_64_with_seed(&key, *seed)).enumerate();
        weights.max_by_key(|(_, weight)| *weight).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PARTS: u64 = 3000;

    fn nodes(names: &[&str]) -> Vec<NodeId> {
        names.iter().map(|name| NodeId((*name).to_owned())).collect()
    }

    /// The name of the home of each part.
    fn homes(nodes: &[NodeId]) -> Vec<NodeId> {
        let homes = Homes::among(nodes);
        let file = PlacedFile::new("s3://bucket/t/0.parquet");
        (0..PARTS).map(|part| nodes.get(homes.of(file, part).unwrap()).unwrap().clone()).collect()
    }

    fn moved(one: &[NodeId], other: &[NodeId]) -> f64 {
        let moved = one.iter().zip(other).filter(|(one, other)| one != other).count();
        moved as f64 / PARTS as f64
    }

    #[test]
    fn only_the_share_of_a_node_that_comes_or_goes_moves() {
        let three = homes(&nodes(&["a", "b", "c"]));
        assert_eq!(three, homes(&nodes(&["c", "a", "b"])), "the order of the nodes decides nothing");
        let four = homes(&nodes(&["a", "b", "c", "d"]));
        assert!(moved(&three, &four) < 0.28, "{}", moved(&three, &four));
        let to_others = three.iter().zip(&four).filter(|(before, after)| before != after);
        assert!(to_others.into_iter().all(|(_, after)| after.0 == "d"), "a part moves to the new node only");
    }

    #[test]
    fn files_have_parts_by_their_size() {
        const MIB: u64 = 1 << 20;
        let sizes = [0, 1, 64 * MIB, 65 * MIB, 128 * MIB, 600 * MIB, 1024 * MIB, 1 << 40];
        assert_eq!(sizes.map(|size| part_bytes(size) / MIB), [4, 4, 4, 8, 8, 64, 64, 64]);
    }

    #[test]
    fn nodes_have_about_as_many_parts() {
        let three = homes(&nodes(&["a", "b", "c"]));
        for node in nodes(&["a", "b", "c"]) {
            let share = three.iter().filter(|home| **home == node).count() as f64 / PARTS as f64;
            assert!((0.30..0.37).contains(&share), "{node}: {share}");
        }
    }

    #[test]
    fn nothing_has_a_home_without_nodes() {
        assert_eq!(Homes::among([]).of(PlacedFile::new("s3://bucket/t"), 0), None);
    }
}
