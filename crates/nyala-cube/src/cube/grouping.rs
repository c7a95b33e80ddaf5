//! The grouping sets of a query, each as DataFusion numbers it.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet};

use super::block::Miss;

/// More sets than this are left to the tables: each is answered on its own.
const MAX_SETS: usize = 256;

/// One set of a GROUP BY with GROUPING SETS, CUBE or ROLLUP.
#[derive(Debug, Clone, PartialEq)]
pub struct QuerySet {
    /// For each group expression: whether it is in the set. The others are null.
    pub members: Vec<bool>,
    /// The value of the internal column `__grouping_id`, from which `GROUPING()` is computed.
    pub id: ScalarValue,
}

/// The group expressions of an aggregation in the order of its output, and its sets: none if it groups
/// plainly.
pub fn grouping(aggregate: &Aggregate) -> Result<(Vec<Expr>, Vec<QuerySet>), Miss> {
    let [Expr::GroupingSet(grouping)] = aggregate.group_expr.as_slice() else {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(Miss::new("its grouping sets are mixed with other expressions"));
        }
        return Ok((aggregate.group_expr.clone(), Vec::new()));
    };
    let exprs: Vec<Expr> = grouping.distinct_expr().into_iter().cloned().collect();
    if exprs.iter().enumerate().any(|(i, expr)| exprs.iter().take(i).any(|earlier| earlier == expr)) {
        return Err(Miss::new("its grouping names one expression twice"));
    }
    let members = members(grouping, &exprs)?;
    Ok((exprs, number(members)))
}

/// The group expressions without duplicates, in the order of the aggregation's columns.
pub fn distinct_groups(aggregate: &Aggregate) -> Vec<&Expr> {
    let mut seen = HashSet::new();
    aggregate.group_expr.iter().filter(|group| seen.insert(*group)).collect()
}

fn members(grouping: &GroupingSet, exprs: &[Expr]) -> Result<Vec<Vec<bool>>, Miss> {
    let n = exprs.len();
    let sets = match grouping {
        GroupingSet::Rollup(_) => n + 1,
        GroupingSet::Cube(_) => {
            1_usize.checked_shl(u32::try_from(n).unwrap_or(u32::MAX)).unwrap_or(usize::MAX)
        }
        GroupingSet::GroupingSets(sets) => sets.len(),
    };
    if sets > MAX_SETS || n > 32 {
        return Err(Miss::new(format!(
            "it has {sets} grouping sets; at most {MAX_SETS} are answered from cubes"
        )));
    }
    Ok(match grouping {
        GroupingSet::Rollup(_) => (0..sets).map(|length| (0..n).map(|i| i < length).collect()).collect(),
        GroupingSet::Cube(_) => (0..sets).map(|bits| (0..n).map(|i| bits >> i & 1 == 1).collect()).collect(),
        GroupingSet::GroupingSets(sets) => {
            sets.iter().map(|set| exprs.iter().map(|expr| set.contains(expr)).collect()).collect()
        }
    })
}

/// Numbers the sets: a bit for each expression that is missing, the last expression in the lowest bit,
/// and above them how often the same set came before ([`Aggregate::INTERNAL_GROUPING_ID`]).
fn number(sets: Vec<Vec<bool>>) -> Vec<QuerySet> {
    let mut seen: HashMap<Vec<bool>, usize> = HashMap::new();
    let mut numbered = Vec::new();
    for members in sets {
        let ordinal = *seen.entry(members.clone()).and_modify(|n| *n += 1).or_insert(0);
        let missing = members.iter().fold(0_u64, |id, member| id << 1 | u64::from(!member));
        numbered.push((missing | (ordinal as u64) << members.len(), members));
    }
    let most = seen.values().copied().max().unwrap_or(0);
    numbered
        .into_iter()
        .map(|(id, members)| QuerySet { id: typed(id, members.len(), most), members })
        .collect()
}

fn typed(id: u64, exprs: usize, most: usize) -> ScalarValue {
    #[expect(clippy::cast_possible_truncation, reason = "the type is chosen to hold every id")]
    match Aggregate::grouping_id_type(exprs, most) {
        DataType::UInt8 => ScalarValue::UInt8(Some(id as u8)),
        DataType::UInt16 => ScalarValue::UInt16(Some(id as u16)),
        DataType::UInt32 => ScalarValue::UInt32(Some(id as u32)),
        _ => ScalarValue::UInt64(Some(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_numbered_as_datafusion_does() {
        let sets = number(vec![vec![true, true], vec![true, false], vec![false, false], vec![true, false]]);
        let ids: Vec<_> = sets.iter().map(|set| set.id.clone()).collect();
        assert_eq!(ids, [0, 1, 3, 5].map(|id| ScalarValue::UInt8(Some(id))));
        let wide = number(vec![vec![false; 9]]);
        assert_eq!(wide[0].id, ScalarValue::UInt16(Some(511)));
    }
}
