//! Finds the grouping sets that have what an aggregation needs.
//!
//! Each rule here is wider than the rule of [`matching`](crate::cube::rewrite::matching) that it stands for: it looks
//! at columns and forms of expressions, where that one looks at the expressions themselves.

use std::collections::BTreeSet;

use datafusion::logical_expr::Expr;
use nyala_sql::functions::{Algebra, algebra, state_family};

use super::bits::Bits;
use super::fact::FactIndex;
use super::term::Term;
use crate::cube::block::{Block, instance_of, instances_of};
use crate::cube::call::Call;
use crate::cube::expression::{Equalities, column_pair, normalize};

/// The sets that may answer a plain aggregation.
pub struct Needs<'a> {
    index: &'a FactIndex,
    block: &'a Block,
    /// Columns that are equal in every row of the query.
    equal: Equalities,
    /// For each table of the query, the grouping sets that it may be joined to late; none if there are none.
    late: Vec<Option<Bits>>,
}

impl<'a> Needs<'a> {
    /// `is_fact`: whether a table of the query is the fact table.
    pub fn of(index: &'a FactIndex, block: &'a Block, is_fact: impl Fn(usize) -> bool) -> Self {
        let mut needs = Self { index, block, equal: Equalities::of(&block.predicates), late: Vec::new() };
        let summed: BTreeSet<usize> = block.aggregates.iter().flat_map(instances_of).collect();
        let late = |i: &usize| !is_fact(*i) && !summed.contains(i);
        let sets: Vec<Option<Bits>> =
            (0..block.instances.len()).map(|i| late(&i).then(|| needs.joined_late(i, late))).collect();
        needs.late = sets;
        needs
    }

    /// The sets that have all that is needed.
    pub fn sets(&self) -> Bits {
        let mut sets = self.all();
        for (table, required) in self.index.required() {
            if !self.block.instances.iter().any(|instance| instance.table == *table) {
                sets.remove(required);
            }
        }
        for (instance, late) in self.block.instances.iter().zip(&self.late) {
            let mut having = late.clone().unwrap_or_default();
            if let Some(table) = self.index.table(&instance.table) {
                having.add(&table.reading);
            }
            sets.keep(&having);
        }
        for group in &self.block.group {
            sets.keep(&self.computed(&Term::of(group)));
        }
        for predicate in &self.block.predicates {
            let mut having = self.computed(&Term::of(predicate));
            self.add_settled(predicate, &mut having);
            sets.keep(&having);
        }
        for aggregate in &self.block.aggregates {
            self.keep_measured(aggregate, &mut sets);
        }
        sets
    }

    fn all(&self) -> Bits {
        Bits::below(self.index.units().len())
    }

    /// The sets with the columns that join table `instance` to others, unless these are joined late too.
    fn joined_late(&self, instance: usize, late: impl Fn(&usize) -> bool) -> Bits {
        let own = self.block.instances.get(instance).and_then(|table| table.outer.as_ref());
        let conditions = self.block.predicates.iter().chain(own.into_iter().flatten());
        let mut sets = self.all();
        for condition in conditions.filter(|condition| instances_of(condition).contains(&instance)) {
            for column in condition.column_refs() {
                if instance_of(column).is_some_and(|other| other != instance && !late(&other)) {
                    let known = self.index.column(self.block, column);
                    sets.keep(known.map_or(&Bits::default(), |column| &column.any_dimension));
                }
            }
        }
        sets
    }

    /// The sets in which a condition holds for all rows, or for all rows of some segments.
    fn add_settled(&self, predicate: &Expr, sets: &mut Bits) {
        let own = self.index.condition(Term::of(predicate).form);
        let joined = column_pair(predicate).and_then(|(one, other)| self.index.pair(self.block, one, other));
        for known in own.into_iter().chain(joined) {
            sets.add(known);
        }
        // All columns of a condition on keys are equal to the partition column, so that any one of them is enough here.
        if let Some(column) = predicate.column_refs().into_iter().next() {
            let equal = self.equal.equals(column);
            let known = equal.iter().filter_map(|equal| self.index.column(self.block, equal));
            known.for_each(|column| sets.add(&column.partition));
        }
    }

    /// The sets with an expression over dimensions.
    fn computed(&self, term: &Term<'_>) -> Bits {
        self.made_of(term, &|_, _| {})
    }

    /// The sets with a value as a whole, or with all of its parts; `more` adds further sets with it as a whole.
    fn made_of(&self, term: &Term<'_>, more: &dyn Fn(&Term<'_>, &mut Bits)) -> Bits {
        let Some(first) = term.columns.first() else { return self.all() };
        let mut sets = match (term.parts.as_slice(), instance_of(first)) {
            ([], Some(instance)) => self.late.get(instance).cloned().flatten().unwrap_or_default(),
            ([], None) => Bits::default(),
            ([first, rest @ ..], _) => {
                let mut sets = self.made_of(first, more);
                rest.iter().for_each(|part| sets.keep(&self.made_of(part, more)));
                sets
            }
        };
        if let Some(known) = self.index.column(self.block, first) {
            known.dimensions.get(&term.form).into_iter().for_each(|having| sets.add(having));
            match term.expr {
                Some(expr) => known.dates_of(expr).for_each(|having| sets.add(having)),
                None => known.dates.iter().for_each(|(_, having)| sets.add(having)),
            }
        }
        more(term, &mut sets);
        sets
    }

    /// Keeps the sets with what an aggregate call may be computed from.
    fn keep_measured(&self, aggregate: &Expr, sets: &mut Bits) {
        let call = Call::of(&normalize(aggregate, &Equalities::default())).map(Call::canonical);
        let Ok(call) = call else { return };
        let family = state_family(&call.function, call.distinct);
        let stored = |term: &Term<'_>, sets: &mut Bits| {
            let known = term.columns.first().and_then(|column| self.index.column(self.block, column));
            let measured = known.and_then(|column| column.measures.get(&(family, term.form)));
            measured.into_iter().chain(self.index.filter(term.form)).for_each(|having| sets.add(having));
        };
        for condition in &call.conditions {
            sets.keep(&self.made_of(&Term::of(condition), &stored));
        }
        // A count of an expression that is never null is `count(*)`: it needs no column.
        if algebra(&call.function) != Algebra::Counts || call.distinct {
            for argument in &call.arguments {
                sets.keep(&self.made_of(&Term::of(argument), &stored));
            }
        }
    }
}
