//! Choosing cuboids one by one, each time the one with most benefit for its bytes.
//!
//! V. Harinarayan, A. Rajaraman, J. D. Ullman: Implementing Data Cubes Efficiently, SIGMOD 1996. The cost
//! of a query is the number of rows it reads; here it is weighed by the time that the history records.

use nyala_model::DimensionSet;

/// Most cuboids of one proposal.
const MAX_CUBOIDS: usize = 32;
/// Most sets that are tried in pairs.
const MAX_PAIRED: usize = 40;
/// A further cuboid for demands that are already served must save this share of the total time.
const WORTHWHILE: f64 = 0.01;

/// The demand of one grouping set of a shape.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// Dimensions that a cuboid must have.
    pub needed: DimensionSet,
    /// Whether the grand total cannot serve it, because it may stand for no row.
    pub of_rows: bool,
    /// Total time of its queries.
    pub weight: f64,
    /// Rows that one of its queries reads from the tables.
    pub raw: f64,
}

impl Demand {
    fn served_by(&self, set: DimensionSet) -> bool {
        set.is_superset(self.needed) && !(self.of_rows && set.is_empty())
    }
}

/// A possible cuboid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cuboid {
    pub set: DimensionSet,
    pub cells: u64,
    pub bytes: u64,
}

/// Chooses cuboids for `demands`; `measure` estimates one.
pub fn choose(demands: &[Demand], measure: impl Fn(DimensionSet) -> Cuboid) -> Vec<Cuboid> {
    let candidates: Vec<Cuboid> = candidates(demands).into_iter().map(measure).collect();
    let total: f64 = demands.iter().map(|demand| demand.weight).sum();
    let mut costs: Vec<f64> = demands.iter().map(|demand| demand.raw).collect();
    let mut chosen: Vec<Cuboid> = Vec::new();
    while chosen.len() < MAX_CUBOIDS {
        let best = candidates
            .iter()
            .filter(|candidate| !chosen.contains(candidate))
            .map(|candidate| (benefit(demands, &costs, candidate), candidate))
            .filter(|((benefit, news), _)| *benefit > 0.0 && (*news || *benefit >= WORTHWHILE * total))
            .max_by(|((a, _), one), ((b, _), other)| {
                (a / rows(one.bytes)).total_cmp(&(b / rows(other.bytes)))
            });
        let Some((_, best)) = best else { break };
        for (demand, cost) in demands.iter().zip(&mut costs) {
            if demand.served_by(best.set) {
                *cost = cost.min(rows(best.cells));
            }
        }
        chosen.push(*best);
    }
    in_use(demands, chosen)
}

/// Time that a candidate would save, and whether it would serve a demand without a cuboid so far.
fn benefit(demands: &[Demand], costs: &[f64], candidate: &Cuboid) -> (f64, bool) {
    let mut sum = 0.0;
    let mut news = false;
    for (demand, cost) in demands.iter().zip(costs).filter(|(demand, _)| demand.served_by(candidate.set)) {
        let spared = (cost - rows(candidate.cells)).max(0.0);
        sum += demand.weight * spared / demand.raw.max(1.0);
        news |= spared > 0.0 && *cost >= demand.raw;
    }
    (sum, news)
}

/// The sets that are needed, and pairs of them as one.
fn candidates(demands: &[Demand]) -> Vec<DimensionSet> {
    let mut sets: Vec<DimensionSet> = demands.iter().map(|demand| demand.needed).collect();
    sets.sort();
    sets.dedup();
    let paired: Vec<DimensionSet> = sets.iter().copied().take(MAX_PAIRED).collect();
    sets.extend(paired.iter().flat_map(|one| paired.iter().map(|other| one.union(*other))));
    sets.sort();
    sets.dedup();
    sets
}

/// The cuboids that are the smallest for some demand: later choices may make earlier ones redundant.
fn in_use(demands: &[Demand], chosen: Vec<Cuboid>) -> Vec<Cuboid> {
    let used = |cuboid: &Cuboid| {
        demands.iter().any(|demand| {
            let fitting = chosen.iter().filter(|other| demand.served_by(other.set));
            fitting.min_by_key(|other| (other.cells, other.bytes, other.set)) == Some(cuboid)
        })
    };
    chosen.iter().filter(|cuboid| used(cuboid)).copied().collect()
}

/// Whether one of `chosen` serves `demand`.
pub fn serves(chosen: &[Cuboid], demand: &Demand) -> bool {
    chosen.iter().any(|cuboid| demand.served_by(cuboid.set))
}

#[expect(clippy::cast_precision_loss, reason = "costs are estimates")]
fn rows(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(dimensions: &[usize]) -> DimensionSet {
        dimensions.iter().copied().collect()
    }

    /// Chooses for demands of equal weight; a dimension `d` has `values[d]` values.
    fn chosen(needs: &[&[usize]], values: &[u64], table: u64) -> Vec<DimensionSet> {
        let demands: Vec<Demand> = needs
            .iter()
            .map(|need| Demand { needed: set(need), of_rows: true, weight: 1.0, raw: rows(table) })
            .collect();
        let measure = |set: DimensionSet| {
            let cells = set.iter().map(|d| values[d]).product::<u64>().min(table);
            Cuboid { set, cells, bytes: cells * 8 }
        };
        let mut sets: Vec<_> = choose(&demands, measure).into_iter().map(|cuboid| cuboid.set).collect();
        sets.sort();
        sets
    }

    #[test]
    fn small_sets_stay_apart_and_useless_ones_are_left_out() {
        assert_eq!(chosen(&[&[0], &[1]], &[1000, 1000], 1_000_000), [set(&[0]), set(&[1])]);
        // The second set has as many cells as the table has rows.
        assert_eq!(chosen(&[&[0], &[1]], &[10, 1_000_000], 1_000_000), [set(&[0])]);
        // The smaller has more benefit for its bytes; the larger serves a demand that has no other cuboid.
        assert_eq!(chosen(&[&[0], &[0, 1]], &[10, 2], 1_000_000), [set(&[0]), set(&[0, 1])]);
        assert!(chosen(&[&[]], &[], 1000).is_empty());
    }
}
