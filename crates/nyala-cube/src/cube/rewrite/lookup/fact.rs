//! The index of the cubes over one fact table: which grouping sets have what a query may need.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use nyala_model::{DimensionSet, QualifiedName, SegmentEntry, SegmentState};
use nyala_sql::functions::state_family;

use super::bits::Bits;
use super::cubes::ReadyCube;
use super::term::Term;
use crate::cube::block::{Block, instance_of};
use crate::cube::compile::CompiledCube;
use crate::cube::expression::column_pair;
use crate::cube::rewrite::dates::{is_date_call, may_follow};

/// A grouping set of a cube, as far as it is built.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    /// Position of the cube.
    pub cube: usize,
    pub dimensions: DimensionSet,
}

/// The cubes over one fact table.
#[derive(Debug, Default)]
pub struct FactIndex {
    cubes: Vec<Arc<ReadyCube>>,
    /// The grouping sets, those of one cube next to each other.
    units: Vec<Unit>,
    tables: HashMap<QualifiedName, TableUnits>,
    /// Sets of cubes with a condition of this form in their joins or WHERE.
    conditions: HashMap<u64, Bits>,
    /// Sets of cubes that join these two columns, by [`pair_key`].
    pairs: HashMap<u64, Bits>,
    /// Sets of cubes with a measure that has a condition of this form in its FILTER.
    filters: HashMap<u64, Bits>,
}

/// The grouping sets that have to do with one table.
#[derive(Debug, Default)]
pub struct TableUnits {
    /// Sets of cubes that read the table.
    pub reading: Bits,
    /// Sets of cubes that can only answer queries that read it.
    pub required: Bits,
    columns: HashMap<String, ColumnUnits>,
}

/// The grouping sets that have to do with one column, or with a column that is always equal to it.
#[derive(Debug, Default)]
pub struct ColumnUnits {
    /// Sets with a dimension that reads it, by the form of the dimension.
    pub dimensions: HashMap<u64, Bits>,
    /// Sets with any dimension that reads it.
    pub any_dimension: Bits,
    /// Sets with a truncated date or a part of one that reads it.
    pub dates: Vec<(Expr, Bits)>,
    /// Sets of cubes with a measure that reads it, by function and form of the argument.
    pub measures: HashMap<(u64, u64), Bits>,
    /// Sets of cubes that are partitioned by it.
    pub partition: Bits,
}

impl FactIndex {
    pub fn cubes(&self) -> &[Arc<ReadyCube>] {
        &self.cubes
    }

    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    pub fn table(&self, table: &QualifiedName) -> Option<&TableUnits> {
        self.tables.get(table)
    }

    /// Tables that a query must read so that some cubes can answer it.
    pub fn required(&self) -> impl Iterator<Item = (&QualifiedName, &Bits)> {
        self.tables.iter().map(|(table, units)| (table, &units.required))
    }

    pub fn column(&self, block: &Block, column: &Column) -> Option<&ColumnUnits> {
        let instance = block.instances.get(instance_of(column)?)?;
        self.tables.get(&instance.table)?.columns.get(&column.name)
    }

    pub fn condition(&self, form: u64) -> Option<&Bits> {
        self.conditions.get(&form)
    }

    pub fn filter(&self, form: u64) -> Option<&Bits> {
        self.filters.get(&form)
    }

    pub fn pair(&self, block: &Block, left: &Column, right: &Column) -> Option<&Bits> {
        self.pairs.get(&pair_key(block, left, right)?)
    }

    /// Adds a cube; it answers nothing if it is not built, switched off, or cannot be used.
    pub fn add(&mut self, cube: Arc<ReadyCube>) {
        let (position, first) = (self.cubes.len(), self.units.len());
        let sets: BTreeSet<DimensionSet> =
            built(&cube).flat_map(|segment| segment.cuboids.iter().map(|cuboid| cuboid.dimensions)).collect();
        self.cubes.push(Arc::clone(&cube));
        if !cube.answers() {
            return;
        }
        let Ok(compiled) = &cube.compiled else { return };
        self.units.extend(sets.into_iter().map(|dimensions| Unit { cube: position, dimensions }));
        let added = Added { compiled, all: (first..self.units.len()).collect(), first };
        self.add_tables(&cube, &added);
        self.add_conditions(&added);
        self.add_dimensions(&added);
        self.add_measures(&added);
    }

    fn add_tables(&mut self, cube: &ReadyCube, added: &Added<'_>) {
        let droppable: BTreeSet<usize> =
            built(cube).filter(|s| !s.is_gap()).flat_map(|s| s.droppable_joins.iter().copied()).collect();
        for (i, instance) in added.compiled.block.instances.iter().enumerate() {
            let table = self.tables.entry(instance.table.clone()).or_default();
            table.reading.add(&added.all);
            if !droppable.contains(&i) {
                table.required.add(&added.all);
            }
        }
        let fact = added.compiled.block.instances.first();
        if let (Some(partition), Some(fact)) = (&added.compiled.partition, fact) {
            let table = self.tables.entry(fact.table.clone()).or_default();
            table.columns.entry(partition.division.column.clone()).or_default().partition.add(&added.all);
        }
    }

    fn add_conditions(&mut self, added: &Added<'_>) {
        let block = &added.compiled.block;
        let outer = block.instances.iter().filter_map(|instance| instance.outer.as_ref()).flatten();
        for condition in block.predicates.iter().chain(outer) {
            self.conditions.entry(Term::of(condition).form).or_default().add(&added.all);
            let Some((left, right)) = column_pair(condition) else { continue };
            let equal = &added.compiled.equal;
            let rights = equal.equals(right);
            for (left, right) in equal.equals(left).iter().flat_map(|l| rights.iter().map(move |r| (l, r))) {
                if let Some(key) = pair_key(block, left, right) {
                    self.pairs.entry(key).or_default().add(&added.all);
                }
            }
        }
    }

    fn add_dimensions(&mut self, added: &Added<'_>) {
        for (i, dimension) in added.compiled.dimensions.iter().enumerate() {
            let having = self.units.iter().enumerate().skip(added.first);
            let having: Bits =
                having.filter(|(_, unit)| unit.dimensions.contains(i)).map(|(unit, _)| unit).collect();
            let term = Term::of(&dimension.expression);
            self.change(added, &term, |column| {
                column.any_dimension.add(&having);
                column.dimensions.entry(term.form).or_default().add(&having);
                if is_date_call(&dimension.expression) {
                    column.add_date(&dimension.expression, &having);
                }
            });
        }
    }

    fn add_measures(&mut self, added: &Added<'_>) {
        for measure in &added.compiled.measures {
            let family = state_family(&measure.canonical.function, measure.canonical.distinct);
            for argument in measure.canonical.arguments.iter().map(Term::of) {
                self.change(added, &argument, |column| {
                    column.measures.entry((family, argument.form)).or_default().add(&added.all);
                });
            }
            for condition in &measure.canonical.conditions {
                self.filters.entry(Term::of(condition).form).or_default().add(&added.all);
            }
        }
    }

    /// Changes the columns of a term of the cube, and all columns that are equal to them.
    fn change(&mut self, added: &Added<'_>, term: &Term<'_>, change: impl Fn(&mut ColumnUnits)) {
        let compiled = added.compiled;
        let equals: BTreeSet<Column> = term.columns.iter().flat_map(|c| compiled.equal.equals(c)).collect();
        for column in equals {
            let instance = instance_of(&column).and_then(|i| compiled.block.instances.get(i));
            if let Some(instance) = instance {
                let table = self.tables.entry(instance.table.clone()).or_default();
                change(table.columns.entry(column.name).or_default());
            }
        }
    }
}

impl ColumnUnits {
    /// Sets with a date that `expr` may follow from.
    pub fn dates_of(&self, expr: &Expr) -> impl Iterator<Item = &Bits> {
        self.dates.iter().filter(|(date, _)| may_follow(expr, date)).map(|(_, having)| having)
    }

    fn add_date(&mut self, date: &Expr, having: &Bits) {
        match self.dates.iter_mut().find(|(known, _)| known == date) {
            Some((_, known)) => known.add(having),
            None => self.dates.push((date.clone(), having.clone())),
        }
    }
}

/// A cube while it is added.
struct Added<'a> {
    compiled: &'a CompiledCube,
    /// All grouping sets of the cube.
    all: Bits,
    first: usize,
}

/// Segments that were built. They may answer, now or after a change of the listings.
fn built(cube: &ReadyCube) -> impl Iterator<Item = &SegmentEntry> {
    cube.entry.segments.iter().filter(|segment| segment.state != SegmentState::Building)
}

/// A key of two columns, in either order.
fn pair_key(block: &Block, left: &Column, right: &Column) -> Option<u64> {
    let key = |column: &Column| {
        let mut state = DefaultHasher::new();
        block.instances.get(instance_of(column)?)?.table.hash(&mut state);
        column.name.hash(&mut state);
        Some(state.finish())
    };
    let (left, right) = (key(left)?, key(right)?);
    Some(left.min(right) ^ left.max(right).rotate_left(1))
}
