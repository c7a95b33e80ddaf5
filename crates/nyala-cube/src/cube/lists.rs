//! The dimensions, measures and grouping sets of a cube, while `ALTER CUBE` changes them.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem};
use nyala_model::{CubeDefinition, DimensionMoves, DimensionSet, Lattice};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{AlterAction, CubeSelect, MAX_CUBOIDS, SelectDimension, calls_in, folded};

use super::compile::invalid;

/// The lists of a cube while they are changed. Dimensions keep their place until the end.
pub struct CubeChange {
    dimensions: Vec<(SelectDimension, String)>,
    /// Number of dimensions before the change.
    before: usize,
    dropped: BTreeSet<usize>,
    measures: Vec<Expr>,
    /// Dropped measures, and added ones.
    pub gone: Vec<Expr>,
    pub added: Vec<Expr>,
    sets: BTreeSet<DimensionSet>,
}

/// The lists as they will be.
pub struct Changed {
    pub select: CubeSelect,
    pub sets: Vec<DimensionSet>,
    pub moves: DimensionMoves,
}

impl CubeChange {
    pub fn of(definition: &CubeDefinition, select: CubeSelect) -> Self {
        let names = definition.dimensions.iter().map(|dimension| dimension.name.clone());
        let dimensions: Vec<_> = select.dimensions.into_iter().zip(names).collect();
        Self {
            before: dimensions.len(),
            dimensions,
            dropped: BTreeSet::new(),
            measures: select.measures,
            gone: Vec::new(),
            added: Vec::new(),
            sets: definition.grouping_sets.iter().copied().collect(),
        }
    }

    pub fn apply(&mut self, action: &AlterAction, is_aggregate: &impl Fn(&str) -> bool) -> Result<()> {
        match action {
            // Options do not change cells.
            AlterAction::Set(_) => Ok(()),
            AlterAction::AddDimension(expr, name) => self.add_dimension(expr, name.as_ref()),
            AlterAction::DropDimension(expr) => self.drop_dimension(expr),
            AlterAction::AddMeasure(call) => self.add_measure(call, is_aggregate),
            AlterAction::DropMeasure(call) => self.drop_measure(call),
            AlterAction::AddGroupingSet(set) => {
                let set = self.resolve_set(set)?;
                if !self.sets.insert(set) {
                    return Err(exists(format!("the cube has grouping set {} already", self.show(set))));
                }
                Ok(())
            }
            AlterAction::DropGroupingSet(set) => {
                let set = self.resolve_set(set)?;
                if !self.sets.remove(&set) {
                    return Err(unknown(format!("the cube has no grouping set {}", self.show(set)))
                        .hint("SHOW CUBOIDS lists those that are built"));
                }
                Ok(())
            }
        }
    }

    fn add_dimension(&mut self, expr: &Expr, name: Option<&Ident>) -> Result<()> {
        let shown = name.map_or_else(|| expr.to_string(), identifier);
        let short = match expr {
            Expr::Identifier(column) if name.is_none() => identifier(column),
            Expr::CompoundIdentifier(parts) if name.is_none() => parts.last().map_or(shown, identifier),
            _ => shown,
        };
        if self.find(expr).is_some() || self.alive().any(|(_, (_, name))| *name == short) {
            return Err(exists(format!("the cube has dimension `{short}` already")));
        }
        if self.dimensions.len() >= DimensionSet::MAX {
            let message = format!("cube would have more than {} dimensions", DimensionSet::MAX);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("drop some first, in a statement of its own"));
        }
        let item = name.map(|alias| SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() });
        let item = item.unwrap_or_else(|| SelectItem::UnnamedExpr(expr.clone()));
        self.dimensions.push((SelectDimension { group: expr.clone(), item: Some(item) }, short));
        Ok(())
    }

    /// Removes the dimension from every grouping set too.
    fn drop_dimension(&mut self, expr: &Expr) -> Result<()> {
        let position = self.resolve(expr)?;
        self.dropped.insert(position);
        let without = |set: &DimensionSet| set.iter().filter(|i| *i != position).collect();
        self.sets = self.sets.iter().map(without).collect();
        Ok(())
    }

    fn add_measure(&mut self, call: &Expr, is_aggregate: &impl Fn(&str) -> bool) -> Result<()> {
        let calls = calls_in(call, is_aggregate);
        if calls.is_empty() {
            return Err(invalid(format!("`{call}` has no aggregate")).hint("write a call such as sum(price)"));
        }
        let new: Vec<Expr> = calls.into_iter().filter(|call| !self.measures.contains(call)).collect();
        if new.is_empty() {
            return Err(exists(format!("the cube has measure `{call}` already")));
        }
        self.added.extend(new.iter().cloned());
        self.measures.extend(new);
        Ok(())
    }

    fn drop_measure(&mut self, call: &Expr) -> Result<()> {
        let text = call.to_string();
        let alike = |measure: &Expr| measure.to_string().eq_ignore_ascii_case(&text);
        let exact = self.measures.iter().position(|measure| measure == call);
        let Some(position) = exact.or_else(|| self.measures.iter().position(alike)) else {
            let all: Vec<String> = self.measures.iter().map(|measure| format!("`{measure}`")).collect();
            return Err(unknown(format!("the cube has no measure `{call}`"))
                .hint(format!("it has {}", all.join(", "))));
        };
        self.gone.push(self.measures.remove(position));
        Ok(())
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &(SelectDimension, String))> {
        self.dimensions.iter().enumerate().filter(|(i, _)| !self.dropped.contains(i))
    }

    /// The dimension with this name or this text.
    fn find(&self, expr: &Expr) -> Option<usize> {
        let named = |name: &str| match expr {
            Expr::Identifier(wanted) => identifier(wanted) == name,
            written => written.to_string() == name,
        };
        let by_name = self.alive().find(|(_, (_, name))| named(name));
        let by_text = || self.alive().find(|(_, (dimension, _))| dimension.group == *expr);
        by_name.or_else(by_text).map(|(i, _)| i)
    }

    fn resolve(&self, expr: &Expr) -> Result<usize> {
        self.find(expr).ok_or_else(|| {
            let names: Vec<String> = self.alive().map(|(_, (_, name))| format!("`{name}`")).collect();
            let message = format!("the cube has no dimension `{expr}`");
            QueryError::new(ErrorKind::UndefinedColumn, message).hint(format!("it has {}", names.join(", ")))
        })
    }

    fn resolve_set(&self, set: &[Expr]) -> Result<DimensionSet> {
        set.iter().map(|expr| self.resolve(expr)).collect()
    }

    fn show(&self, set: DimensionSet) -> String {
        let names = set.iter().filter_map(|i| self.dimensions.get(i)).map(|(_, name)| name.as_str());
        format!("({})", names.collect::<Vec<_>>().join(", "))
    }

    /// New dimensions without a grouping set join each of the largest sets; dimensions in no grouping set any
    /// more are dropped.
    pub fn finish(mut self) -> Result<Changed> {
        let used = |sets: &BTreeSet<DimensionSet>| sets.iter().fold(DimensionSet::EMPTY, |a, b| a.union(*b));
        let known = used(&self.sets);
        let roots: Vec<DimensionSet> = Lattice::new(self.sets.iter().copied()).roots().collect();
        for dimension in (self.before..self.dimensions.len()).filter(|i| !known.contains(*i)) {
            if !self.dropped.contains(&dimension) {
                self.sets.extend(roots.iter().map(|root| root.with(dimension)));
            }
        }
        if self.measures.is_empty() {
            return Err(invalid("the cube would have no measure").hint("DROP CUBE drops all of it"));
        }
        if self.sets.is_empty() {
            return Err(invalid("the cube would have no grouping set").hint("DROP CUBE drops all of it"));
        }
        if self.sets.len() > MAX_CUBOIDS {
            let message = format!("cube would have more than {MAX_CUBOIDS} cuboids");
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("name the grouping sets of a new dimension: ADD GROUPING SET (…)"));
        }
        let known = used(&self.sets);
        let mut place = 0_usize..;
        let places: Vec<Option<usize>> =
            (0..self.dimensions.len()).map(|i| known.contains(i).then(|| place.next()).flatten()).collect();
        let moves = DimensionMoves(places);
        let sets = Lattice::new(self.sets.iter().map(|set| moves.of(*set)));
        let kept = self.dimensions.into_iter().enumerate().filter(|(i, _)| known.contains(*i));
        let select = CubeSelect {
            dimensions: kept.map(|(_, (dimension, _))| dimension).collect(),
            measures: self.measures,
        };
        let moves = DimensionMoves(moves.0.into_iter().take(self.before).collect());
        Ok(Changed { select, sets: sets.sets().to_vec(), moves })
    }
}

pub fn exists(message: String) -> QueryError {
    QueryError::new(ErrorKind::DuplicateObject, message)
}

fn unknown(message: String) -> QueryError {
    QueryError::new(ErrorKind::UndefinedObject, message)
}

fn identifier(ident: &Ident) -> String {
    folded(ident)
}
