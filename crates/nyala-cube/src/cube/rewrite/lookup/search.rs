//! The cubes to try, those first that may read fewest rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::logical_expr::simplify::SimplifyContext;
use nyala_model::{DimensionSet, QualifiedName};

use super::bound::least_rows;
use super::cubes::{CubeIndex, ReadyCube};
use super::fact::FactIndex;
use super::needs::Needs;
use crate::cube::block::Block;
use crate::cube::rewrite::candidate::asked;
use crate::cube::rewrite::ranges::Asked;
use crate::live::Pins;

/// A cube that may answer.
#[derive(Debug)]
pub struct Likely {
    /// The cube as the statement may use it.
    pub cube: Arc<ReadyCube>,
    /// A lower bound of the rows that it reads, and its place among all cubes, which decides between equal bounds.
    pub least: (u64, usize),
}

/// The cubes that may answer all of `blocks`, which are the grouping sets of one aggregation.
pub fn likely(cubes: &CubeIndex, blocks: &[Block], pins: &Pins, simplify: &SimplifyContext) -> Vec<Likely> {
    let Some(block) = blocks.first() else { return Vec::new() };
    let mut found = Vec::new();
    let mut before = 0;
    for (table, index) in cubes.over(block) {
        let mut ranges = Ranges { block, simplify, known: BTreeMap::new() };
        for (position, sets) in having_all(index, table, blocks) {
            let Some(cube) = index.cubes().get(position).map(|cube| cube.at(pins)) else { continue };
            let asked = ranges.of(&cube);
            let rows = sets.iter().map(|sets| least_rows(&cube, sets, asked));
            let least = rows.fold(0, u64::saturating_add);
            found.push(Likely { cube, least: (least, before + position) });
        }
        before += index.cubes().len();
    }
    found.sort_by_key(|likely| likely.least);
    found
}

/// Cubes with a fitting grouping set for each of `blocks`, and these sets.
fn having_all(
    index: &FactIndex,
    fact: &QualifiedName,
    blocks: &[Block],
) -> BTreeMap<usize, Vec<Vec<DimensionSet>>> {
    let mut cubes: BTreeMap<usize, Vec<Vec<DimensionSet>>> = BTreeMap::new();
    for (i, block) in blocks.iter().enumerate() {
        let is_fact = |i: usize| block.instances.get(i).is_some_and(|instance| instance.table == *fact);
        for unit in Needs::of(index, block, is_fact).sets().iter() {
            let Some(unit) = index.units().get(unit) else { continue };
            let sets = match cubes.get_mut(&unit.cube) {
                Some(sets) => sets,
                None if i == 0 => cubes.entry(unit.cube).or_default(),
                None => continue,
            };
            if sets.len() == i {
                sets.push(Vec::new());
            }
            sets.last_mut().into_iter().for_each(|sets| sets.push(unit.dimensions));
        }
        cubes.retain(|_, sets| sets.len() == i + 1);
    }
    cubes
}

/// The keys that the query asks for, by partition column.
struct Ranges<'a> {
    block: &'a Block,
    simplify: &'a SimplifyContext,
    known: BTreeMap<Option<usize>, Asked>,
}

impl Ranges<'_> {
    fn of(&mut self, cube: &ReadyCube) -> &Asked {
        let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
        let column = column.map(|column| column.index);
        self.known.entry(column).or_insert_with(|| asked(cube, self.block, self.simplify))
    }
}
