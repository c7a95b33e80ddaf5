//! The GROUP BY of a cube: which dimensions it has and which sets of them are materialised.

use datafusion::sql::sqlparser::ast::{Distinct, Expr, GroupByExpr, Query, Select, SetExpr};
use nyala_model::{DimensionSet, Lattice};

use crate::error::{ErrorKind, QueryError, Result};

/// Most cuboids of a cube: more would take too long to build.
pub const MAX_CUBOIDS: usize = 4096;

/// A cube's SELECT with its grouping taken apart.
#[derive(Debug, Clone)]
pub struct CubeGrouping {
    /// The SELECT, grouped plainly by every dimension.
    pub flat: Query,
    /// Number of distinct group expressions, in order of first appearance.
    pub dimensions: usize,
    /// The distinct grouping sets, each after its supersets.
    pub sets: Vec<DimensionSet>,
}

impl CubeGrouping {
    /// Expands `ROLLUP`, `CUBE` and `GROUPING SETS`, and their concatenation, by the SQL standard:
    /// the cross product of the sets of every element.
    pub fn expand(query: &Query) -> Result<Self> {
        let mut flat = query.clone();
        let select = plain_select(&mut flat)?;
        let elements = match &select.group_by {
            GroupByExpr::Expressions(elements, modifiers) if modifiers.is_empty() => elements.clone(),
            _ => return Err(invalid("GROUP BY of a cube must list its dimensions", "name each dimension")),
        };
        let mut dimensions = Vec::new();
        let mut sets = vec![DimensionSet::EMPTY];
        for element in elements {
            let choices = element_sets(element, &mut dimensions)?;
            if sets.len() * choices.len() > MAX_CUBOIDS {
                return Err(too_many());
            }
            sets = sets.iter().flat_map(|set| choices.iter().map(|choice| set.union(*choice))).collect();
        }
        let count = dimensions.len();
        select.group_by = GroupByExpr::Expressions(dimensions, Vec::new());
        Ok(Self { flat, dimensions: count, sets: Lattice::new(sets).sets().to_vec() })
    }
}

/// The sets that one element of the GROUP BY stands for.
fn element_sets(element: Expr, dimensions: &mut Vec<Expr>) -> Result<Vec<DimensionSet>> {
    match element {
        Expr::Rollup(parts) => {
            let parts = joint_sets(parts, dimensions)?;
            let prefixes = (0..=parts.len()).rev();
            Ok(prefixes.map(|n| union(parts.iter().take(n))).collect())
        }
        Expr::Cube(parts) => {
            let parts = joint_sets(parts, dimensions)?;
            if parts.len() > MAX_CUBOIDS.ilog2() as usize {
                return Err(too_many());
            }
            let subsets = (0..1_usize << parts.len()).rev();
            Ok(subsets
                .map(|chosen| {
                    union(parts.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, set)| set))
                })
                .collect())
        }
        Expr::GroupingSets(parts) => joint_sets(parts, dimensions),
        Expr::Tuple(parts) => Ok(vec![joint_set(parts, dimensions)?]),
        bare => Ok(vec![joint_set(vec![bare], dimensions)?]),
    }
}

fn joint_sets(parts: Vec<Vec<Expr>>, dimensions: &mut Vec<Expr>) -> Result<Vec<DimensionSet>> {
    parts.into_iter().map(|part| joint_set(part, dimensions)).collect()
}

/// The dimensions of one element; new ones are added to the list.
fn joint_set(part: Vec<Expr>, dimensions: &mut Vec<Expr>) -> Result<DimensionSet> {
    let mut set = DimensionSet::EMPTY;
    for expr in part {
        let expr = unbracketed(expr);
        if matches!(expr, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_)) {
            return Err(invalid("grouping sets of a cube cannot be nested", "write them out side by side"));
        }
        let position = dimensions.iter().position(|known| *known == expr).unwrap_or_else(|| {
            dimensions.push(expr);
            dimensions.len() - 1
        });
        set = set.with(position);
    }
    if dimensions.len() > DimensionSet::MAX {
        let message = format!("cube has more than {} dimensions", DimensionSet::MAX);
        return Err(QueryError::new(ErrorKind::LimitExceeded, message)
            .hint("split it into cubes whose queries belong together"));
    }
    Ok(set)
}

fn unbracketed(mut expr: Expr) -> Expr {
    while let Expr::Nested(inner) = expr {
        expr = *inner;
    }
    expr
}

fn union<'a>(sets: impl Iterator<Item = &'a DimensionSet>) -> DimensionSet {
    sets.fold(DimensionSet::EMPTY, |all, set| all.union(*set))
}

/// The single SELECT of a cube, refusing clauses that a stored aggregation cannot honour.
fn plain_select(query: &mut Query) -> Result<&mut Select> {
    let refused = [
        (query.order_by.is_some(), "ORDER BY"),
        (query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT"),
        (!query.locks.is_empty(), "FOR UPDATE"),
    ];
    refuse(&refused)?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(invalid(
            "a cube is defined by one SELECT, not by UNION, VALUES or a bracketed query",
            "create one cube for each SELECT",
        ));
    };
    let refused = [
        (matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))), "DISTINCT"),
        (select.having.is_some(), "HAVING"),
        (select.qualify.is_some(), "QUALIFY"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.into.is_some(), "INTO"),
        (select.top.is_some(), "TOP"),
    ];
    refuse(&refused)?;
    Ok(select)
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(invalid(
            &format!("the SELECT of a cube cannot have {clause}"),
            "leave it out here and write it in the queries",
        )),
        None => Ok(()),
    }
}

fn invalid(message: &str, hint: &str) -> QueryError {
    QueryError::new(ErrorKind::InvalidDefinition, message).hint(hint)
}

fn too_many() -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, format!("cube would have more than {MAX_CUBOIDS} cuboids"))
        .hint("put dimensions that are used together in brackets, or list GROUPING SETS")
}
