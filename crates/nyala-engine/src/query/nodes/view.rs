//! What all nodes told of themselves, and how long ago that was.
//!
//! Ages are by the clock of the catalog's database, to which all nodes tell. While it does not answer this node, it may answer no other:
//! that time makes no node older. Connections find the nodes that die meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nyala_model::{NodeEntry, NodeId};

/// How often a node tells that it lives.
pub const BEAT: Duration = Duration::from_secs(2);
/// A node that has told nothing for this long is taken for dead. Others see that within ten seconds, also where their question takes a while;
/// it is longer than [`AWAY`] and [`BEAT`] together, the age of a living node that told nothing for as long as is not taken for a pause.
const DEAD: Duration = Duration::from_secs(9);
/// A node that has told nothing for this long is lost: its work is given up, and its leases have ended, too.
const LOST: Duration = Duration::from_secs(60);
/// A view is stale this long after the last report of its own node: two reports are missing.
const STALE: Duration = Duration::from_secs(4);
/// After a longer pause between two reports of its own node, a view counts the ages of all others anew: they may have had the same pause.
const AWAY: Duration = Duration::from_secs(6);

const _: () = assert!(DEAD.as_millis() > AWAY.as_millis() + BEAT.as_millis());

/// The nodes, as they were when this one last told of itself.
#[derive(Debug, Default)]
pub struct View {
    nodes: Vec<NodeEntry>,
    /// The last report of this node; none before the first.
    told: Option<Instant>,
    /// When it told again after the last pause.
    back: Option<Instant>,
    /// What the ages of nodes that have told nothing since then are reduced by, in milliseconds.
    forgiven: BTreeMap<NodeId, u64>,
}

impl View {
    /// The view after a report of this node at `now`; the catalog lists `nodes` then.
    #[must_use]
    pub fn after(&self, nodes: Vec<NodeEntry>, now: Instant) -> Self {
        let was_away = self.told.is_some_and(|told| now.saturating_duration_since(told) > AWAY);
        let since_back = self.back.map_or(0, |back| millis(now.saturating_duration_since(back)));
        let forgiven = nodes.iter().filter_map(|node| {
            // A node's age is reduced once until the node tells again: if each answer takes seconds, every report comes after a pause.
            let reduction = match self.forgiven.get(&node.id).filter(|_| node.age_ms >= since_back) {
                Some(before) => *before,
                None if was_away => node.age_ms.saturating_sub(self.age_before(&node.id)?),
                None => return None,
            };
            Some((node.id.clone(), reduction))
        });
        let back = if was_away { Some(now) } else { self.back };
        let forgiven: BTreeMap<NodeId, u64> = forgiven.collect();
        let nodes = nodes.into_iter().map(|node| {
            let reduction = forgiven.get(&node.id).copied().unwrap_or_default();
            NodeEntry { age_ms: node.age_ms.saturating_sub(reduction), ..node }
        });
        Self { nodes: nodes.collect(), told: Some(now), back, forgiven }
    }

    /// The age with which a node comes out of a pause: a node that was dead before the pause is not alive after it.
    fn age_before(&self, id: &NodeId) -> Option<u64> {
        let node = self.nodes.iter().find(|node| node.id == *id)?;
        Some(if is_alive(node) { 0 } else { node.age_ms })
    }

    /// The nodes, with their ages at `now`.
    pub fn nodes_at(&self, now: Instant) -> Vec<NodeEntry> {
        let since = self.told.map_or(Duration::ZERO, |told| now.saturating_duration_since(told));
        let since = millis(since.min(STALE));
        let aged = |node: &NodeEntry| NodeEntry { age_ms: node.age_ms.saturating_add(since), ..node.clone() };
        self.nodes.iter().map(aged).collect()
    }

    /// Whether the nodes may tell something else by now, which this one does not hear.
    pub fn is_stale(&self, now: Instant) -> bool {
        self.told.is_none_or(|told| now.saturating_duration_since(told) >= STALE)
    }
}

/// Whether a node told lately that it lives.
pub fn is_alive(node: &NodeEntry) -> bool {
    Duration::from_millis(node.age_ms) < DEAD
}

/// Whether a node may still be doing its work.
pub fn is_there(node: &NodeEntry) -> bool {
    Duration::from_millis(node.age_ms) < LOST
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, age_seconds: u64) -> NodeEntry {
        NodeEntry { id: NodeId(name.to_owned()), age_ms: age_seconds * 1000, ..NodeEntry::default() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The names of the nodes that count as alive.
    fn alive(view: &View, now: Instant) -> Vec<String> {
        view.nodes_at(now).into_iter().filter(is_alive).map(|node| node.id.0).collect()
    }

    #[test]
    fn nodes_do_not_die_while_the_database_is_away() {
        let begun = Instant::now();
        let view = View::default().after(vec![node("a", 1), node("b", 4), node("dead", 9)], begun);
        for later in [0, 4, 10, 3600] {
            assert_eq!(alive(&view, begun + seconds(later)), ["a", "b"], "{later} s");
        }
        // The catalog counts the time of the pause.
        let back = begun + seconds(20);
        let view = view.after(vec![node("a", 21), node("b", 25), node("dead", 31), node("new", 15)], back);
        assert_eq!(alive(&view, back), ["a", "b"]);
        // Node `a` tells that it lives, node `b` does not.
        let view = view.after(vec![node("a", 1), node("b", 27), node("dead", 33)], back + seconds(2));
        let view = view.after(vec![node("a", 2), node("b", 31), node("dead", 37)], back + seconds(6));
        assert_eq!(alive(&view, back + seconds(6)), ["a", "b"]);
        let view = view.after(vec![node("a", 1), node("b", 35), node("dead", 41)], back + seconds(10));
        assert_eq!(alive(&view, back + seconds(10)), ["a"]);
        // A node that has told since is judged by the catalog's clock alone.
        let view = view.after(vec![node("a", 300), node("b", 39)], back + seconds(14));
        assert!(alive(&view, back + seconds(14)).is_empty());
    }

    #[test]
    fn a_node_dies_also_where_the_database_is_slow() {
        let begun = Instant::now();
        let mut view = View::default().after(vec![node("a", 1), node("b", 1)], begun);
        for seven in 1..=3 {
            let now = begun + seconds(7 * seven);
            view = view.after(vec![node("a", 1), node("b", 1 + 7 * seven)], now);
        }
        assert_eq!(alive(&view, begun + seconds(21)), ["a"]);
    }

    #[test]
    fn a_view_is_stale_without_reports() {
        let begun = Instant::now();
        assert!(View::default().is_stale(begun), "before the first report");
        let view = View::default().after(Vec::new(), begun);
        assert!(!view.is_stale(begun + seconds(3)));
        assert!(view.is_stale(begun + seconds(4)));
    }

    #[test]
    fn the_work_of_a_node_is_given_up_after_a_minute() {
        assert!(is_there(&node("a", 59)) && !is_there(&node("a", 60)));
    }
}
