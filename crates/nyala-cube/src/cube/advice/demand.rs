//! Makes a CREATE CUBE statement from a star of recorded queries.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use nyala_model::{DimensionSet, QueryHistoryEntry, SegmentState};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::StatementLimits;

use super::greedy::{Cuboid, Demand, choose, serves};
use super::sample::Sample;
use super::star::{Star, stars};
use crate::cube::block::Block;
use crate::cube::build::droppable_joins;
use crate::cube::compile::{CompiledCube, compile, find_aggregate, plan_select};
use crate::cube::expression::{Equalities, normalize};
use crate::cube::rewrite::{CubeIndex, ReadyCube, needed};
use crate::cube::shape::{from_clause, quoted};

/// Bytes of a dimension in a cell: columns are sorted and coded by their few values.
const DIMENSION_BYTES: u64 = 2;
/// Bytes of a state in a cell.
const STATE_BYTES: u64 = 8;
/// Dimensions of one proposal at most.
const MAX_DIMENSIONS: usize = DimensionSet::MAX;

/// A proposed cube.
#[derive(Debug)]
pub struct Advice {
    /// `AS SELECT …` of the statement.
    pub select: String,
    /// The shapes it would serve.
    pub served: Vec<QueryHistoryEntry>,
    /// Grouping sets.
    pub cuboids: usize,
    /// Cells of all cuboids.
    pub cells: u64,
    /// Size of all cuboids, in bytes.
    pub bytes: u64,
    /// Rows that a build reads and joins.
    pub rows: u64,
}

/// The result of [`advise`]: a cube, and the shapes it would not serve, with the reason.
pub type Advised = (Option<Advice>, Vec<(QueryHistoryEntry, String)>);

/// Proposes a cube for `star`. `fact_rows` is the size of its fact table.
pub async fn advise(
    star: &Star,
    fact_rows: u64,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<Advised> {
    let planner = Planner { state, limits };
    let (star, mut unserved) = planner.usable(star).await;
    if star.entries.is_empty() {
        return Ok((None, unserved));
    }
    let together = match planner.columns(&star).await {
        Ok(columns) => planner.compile(&star, &columns).await.map(|compiled| (columns, compiled)),
        Err(error) => Err(error),
    };
    let (columns, compiled) = match together {
        Ok(together) => together,
        Err(error) => {
            // Each shape compiles alone, but not all together: two columns may have the same name, for instance.
            unserved.extend(star.entries.into_iter().map(|entry| (entry, error.to_string())));
            return Ok((None, unserved));
        }
    };
    let droppable: BTreeSet<usize> = droppable_joins(&compiled, state).await?.into_iter().collect();
    let sample = Sample::take(&compiled, fact_rows, state).await?;
    let (mut demands, mut served) = (Vec::new(), Vec::new());
    for entry in &star.entries {
        match planner.demands(&star, entry, &compiled, &droppable, sample.total()).await {
            Ok(own) => {
                demands.extend(own.iter().copied());
                served.push((entry.clone(), own));
            }
            Err(reason) => unserved.push((entry.clone(), reason)),
        }
    }
    let states: usize = compiled.measures.iter().map(|measure| measure.states.len()).sum();
    let chosen = choose(&demands, |set| {
        let cells = sample.cells(set);
        let cell = DIMENSION_BYTES * set.len() as u64 + STATE_BYTES * states as u64;
        Cuboid { set, cells, bytes: cells.saturating_mul(cell) }
    });
    let (yes, no): (Vec<_>, Vec<_>) =
        served.into_iter().partition(|(_, own)| own.iter().all(|demand| serves(&chosen, demand)));
    let idle = "its cells would be about as many as the rows it reads".to_owned();
    unserved.extend(no.into_iter().map(|(entry, _)| (entry, idle.clone())));
    if yes.is_empty() {
        return Ok((None, unserved));
    }
    let star = star.with(yes.into_iter().map(|(entry, _)| entry).collect());
    let advice = Advice {
        select: select(&star, &columns, &chosen),
        cuboids: chosen.len(),
        cells: chosen.iter().map(|cuboid| cuboid.cells).sum(),
        bytes: chosen.iter().map(|cuboid| cuboid.bytes).sum(),
        rows: sample.total(),
        served: star.entries,
    };
    Ok((Some(advice), unserved))
}

/// A dimension: its SQL, and the name it needs if its own is taken.
#[derive(Debug, Clone)]
struct Column {
    sql: String,
    name: Option<String>,
}

impl Column {
    fn listed(&self) -> String {
        match &self.name {
            Some(name) => format!("{} AS {}", self.sql, quoted(name)),
            None => self.sql.clone(),
        }
    }
}

struct Planner<'a> {
    state: &'a SessionState,
    limits: &'a StatementLimits,
}

impl Planner<'_> {
    /// Shapes that some cube could serve, and the others with the reason.
    async fn usable(&self, star: &Star) -> (Star, Vec<(QueryHistoryEntry, String)>) {
        let (mut usable, mut others) = (Vec::new(), Vec::new());
        let mut dimensions: BTreeSet<&str> = BTreeSet::new();
        for entry in &star.entries {
            let alone = star.with(vec![entry.clone()]);
            let possible = match self.columns(&alone).await {
                Ok(columns) => self.compile(&alone, &columns).await.map(|_| ()),
                Err(error) => Err(error),
            };
            let own: BTreeSet<&str> = wanted(entry).collect();
            let together = dimensions.union(&own).count();
            match possible {
                Ok(()) if together <= MAX_DIMENSIONS => {
                    dimensions.extend(own);
                    usable.push(entry.clone());
                }
                Ok(()) => others.push((entry.clone(), "the cube would have too many dimensions".to_owned())),
                Err(error) => others.push((entry.clone(), error.to_string())),
            }
        }
        (star.with(usable), others)
    }

    /// The dimensions of all shapes; of columns that are always equal, only the first.
    async fn columns(&self, star: &Star) -> Result<Vec<Column>> {
        let wanted: BTreeSet<&str> = star.entries.iter().flat_map(wanted).collect();
        let wanted: Vec<Column> =
            wanted.into_iter().map(|sql| Column { sql: sql.to_owned(), name: None }).collect();
        if wanted.is_empty() {
            return Ok(wanted);
        }
        let block = self.block(&plain(star, &wanted, &["count(*)".to_owned()])).await?;
        let equal = Equalities::of(&block.predicates);
        let mut known: Vec<Expr> = Vec::new();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut columns = Vec::new();
        // Two equal columns are one group expression.
        for (mut column, group) in wanted.into_iter().zip(&block.group) {
            let normal = normalize(group, &equal);
            if known.contains(&normal) {
                continue;
            }
            known.push(normal);
            if let Expr::Column(plain) = group {
                let count = names.entry(plain.name.clone()).or_default();
                *count += 1;
                column.name = (*count > 1).then(|| format!("{}_{count}", plain.name));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    async fn compile(&self, star: &Star, columns: &[Column]) -> Result<CompiledCube> {
        compile(&plain(star, columns, &measures(star)), None, &[], self.state, self.limits).await
    }

    async fn block(&self, sql: &str) -> Result<Block> {
        let plan = plan_select(sql, self.state, self.limits).await?;
        Block::of_cube(find_aggregate(&plan)?.1).map_err(QueryError::internal)
    }

    /// A shape as aggregations, one for each of its grouping sets, with filtered columns as groups.
    async fn blocks(
        &self,
        star: &Star,
        entry: &QueryHistoryEntry,
    ) -> std::result::Result<Vec<Block>, String> {
        let shape = &entry.shape;
        let every: Vec<usize> = (0..shape.group.len()).collect();
        let sets = if shape.sets.is_empty() { vec![every] } else { shape.sets.clone() };
        let alone = star.with(vec![entry.clone()]);
        let mut blocks = Vec::new();
        for set in &sets {
            let grouped = set.iter().filter_map(|i| shape.group.get(*i));
            let columns: BTreeSet<&String> = grouped.chain(&shape.filtered).collect();
            let columns: Vec<Column> =
                columns.into_iter().map(|sql| Column { sql: sql.clone(), name: None }).collect();
            let sql = plain(&alone, &columns, &measures(&alone));
            blocks.push(self.block(&sql).await.map_err(|error| error.to_string())?);
        }
        Ok(blocks)
    }

    /// The demand of each grouping set of a shape, or why the cube cannot serve it.
    async fn demands(
        &self,
        star: &Star,
        entry: &QueryHistoryEntry,
        compiled: &CompiledCube,
        droppable: &BTreeSet<usize>,
        total: u64,
    ) -> std::result::Result<Vec<Demand>, String> {
        let blocks = self.blocks(star, entry).await?;
        let mut demands = Vec::new();
        for block in &blocks {
            let (needed, of_rows) = needed(compiled, droppable, block).map_err(|miss| miss.to_string())?;
            #[expect(clippy::cast_precision_loss, reason = "times and costs are estimates")]
            demands.push(Demand {
                needed,
                of_rows,
                weight: entry.total_us.max(1) as f64 / blocks.len() as f64,
                // Each join is another step for every row.
                raw: total as f64 * entry.shape.tables.len() as f64,
            });
        }
        Ok(demands)
    }
}

/// The entries that no cube of `cubes` has the dimensions and measures for; others are answered once it is built.
pub async fn without_covered(
    entries: Vec<QueryHistoryEntry>,
    cubes: &CubeIndex,
    state: &SessionState,
    limits: &StatementLimits,
) -> Vec<QueryHistoryEntry> {
    let planner = Planner { state, limits };
    let mut open = Vec::new();
    for entry in entries {
        // The choice of the fact table does not change the queries.
        let alone = stars(vec![entry.clone()], |_| 0, true).pop();
        let blocks = match &alone {
            Some(star) => planner.blocks(star, &entry).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let over = blocks.first().map(|block| cubes.over(block)).unwrap_or_default();
        let mut over = over.into_iter().flat_map(|(_, index)| index.cubes());
        if blocks.is_empty() || !over.any(|cube| blocks.iter().all(|block| has_all(cube, block))) {
            open.push(entry);
        }
    }
    open
}

/// Whether a grouping set of the cube serves `block`. Until it is built, joins are taken to keep every row.
fn has_all(cube: &ReadyCube, block: &Block) -> bool {
    let Ok(compiled) = &cube.compiled else { return false };
    let ready = cube.entry.segments.iter().find(|segment| segment.state == SegmentState::Ready);
    let droppable: BTreeSet<usize> = match ready {
        Some(segment) => segment.droppable_joins.iter().copied().collect(),
        None => (1..compiled.block.instances.len()).collect(),
    };
    let Ok((needed, of_rows)) = needed(compiled, &droppable, block) else { return false };
    let mut sets = cube.entry.definition.grouping_sets.iter();
    sets.any(|set| set.is_superset(needed) && !(of_rows && set.is_empty()))
}

/// The grouped and filtered expressions of a shape.
fn wanted(entry: &QueryHistoryEntry) -> impl Iterator<Item = &str> {
    entry.shape.group.iter().chain(&entry.shape.filtered).map(String::as_str)
}

fn measures(star: &Star) -> Vec<String> {
    let calls = star.entries.iter().flat_map(|entry| &entry.shape.aggregates);
    let calls = calls.map(|call| if call == "count(1)" { "count(*)".to_owned() } else { call.clone() });
    let mut calls: BTreeSet<String> = calls.collect();
    // Averages and counts of later shapes need it, and it costs little.
    calls.insert("count(*)".to_owned());
    calls.into_iter().collect()
}

/// An aggregation of the star, grouped plainly.
fn plain(star: &Star, columns: &[Column], measures: &[String]) -> String {
    let group: Vec<&str> = columns.iter().map(|column| column.sql.as_str()).collect();
    let clause = if group.is_empty() { String::new() } else { format!(" GROUP BY {}", group.join(", ")) };
    format!("{}{clause}", head(star, columns.iter(), measures))
}

fn head<'a>(star: &Star, columns: impl Iterator<Item = &'a Column>, measures: &[String]) -> String {
    let mut list: Vec<String> = columns.map(Column::listed).collect();
    list.extend(measures.iter().cloned());
    format!("SELECT {} FROM {}", list.join(", "), from_clause(&star.join, Some(&star.fact)))
}

fn select(star: &Star, columns: &[Column], chosen: &[Cuboid]) -> String {
    let used = chosen.iter().fold(DimensionSet::EMPTY, |all, cuboid| all.union(cuboid.set));
    let head = head(star, used.iter().filter_map(|i| columns.get(i)), &measures(star));
    if used.is_empty() {
        return head;
    }
    let sets = chosen.iter().map(|cuboid| {
        let members = cuboid.set.iter().filter_map(|i| columns.get(i)).map(|column| column.sql.as_str());
        format!("({})", members.collect::<Vec<_>>().join(", "))
    });
    format!("{head} GROUP BY GROUPING SETS ({})", sets.collect::<Vec<_>>().join(", "))
}
