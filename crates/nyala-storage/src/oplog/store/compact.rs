//! Rewriting units that are small, or have few live rows, as one.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_select::{concat::concat, filter::filter};

use super::StoreOptions;
use super::inner::Inner;
use super::queue::lock;
use super::upkeep::Upkeep;
use crate::oplog::codec::Part;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::UnitFiles;
use crate::oplog::meta::SchemaVersion;
use crate::oplog::table::{Location, SharedTable, TableState};
use crate::oplog::unit::{Base, DeadRows, Hashes, Lsns, Unit, UnitView, key_header, seal};

/// Units with fewer live rows are small.
const SMALL_ROWS: u32 = 1 << 16;

/// A unit to be rewritten: its slot, and its view when the rewrite began.
struct Input {
    slot: u32,
    view: Arc<UnitView>,
}

/// Live rows of the inputs, in order.
struct Output {
    hashes: Vec<u64>,
    lsns: Lsns,
    /// Where each row was.
    origins: Vec<Location>,
    columns: Vec<ArrayRef>,
}

impl Inner {
    /// Drops units without live rows; gives whether there was one. It takes no space.
    pub fn drop_dead_units(&self) -> bool {
        let mut any = false;
        for table in self.all_tables() {
            let due = {
                let state = table.read();
                state.check_whole().is_ok() && state.dead_units().next().is_some()
            };
            any |= due && table.change(TableState::drop_dead_units);
        }
        any
    }

    /// Rewrites some units of each table that has sparse or many small ones; gives whether there was one.
    pub fn compact(&self, upkeep: &mut Upkeep) -> Result<bool> {
        self.each_whole_table(|table| {
            let inputs = choose(table, &self.options);
            if inputs.is_empty() {
                return Ok(false);
            }
            self.rewrite(upkeep, table, &inputs)?;
            Ok(true)
        })
    }

    fn rewrite(&self, upkeep: &mut Upkeep, table: &Arc<SharedTable>, inputs: &[Input]) -> Result<()> {
        let meta = table.meta();
        let schema = meta.current()?.clone();
        let output = gather(table, &schema, inputs, &mut || self.keep_log_short(upkeep))?;
        if output.hashes.is_empty() {
            table.change(|state| inputs.iter().for_each(|input| drop(state.take(input))));
            return Ok(());
        }
        let unit = {
            let mut committer = lock(&self.committer);
            committer.next_unit += 1;
            committer.next_unit - 1
        };
        let header = key_header(self.store, meta.id, unit, upkeep.take_number());
        let Output { hashes, lsns, origins, columns } = output;
        let mut between = || self.keep_log_short(upkeep);
        let (base, seg, key) = seal(&self.folder, header, &schema, &hashes, &lsns, columns, &mut between)?;
        base.load_keys()?;
        upkeep.files.insert((meta.id, unit), UnitFiles { seg: Some(seg), key: Some(key), del: None });
        table.change(|state| state.install(unit, base, hashes, &origins, inputs));
        Ok(())
    }
}

/// The units of a table to be rewritten now, if it is worth it.
fn choose(table: &SharedTable, options: &StoreOptions) -> Vec<Input> {
    let state = table.read();
    let version = table.version();
    let sealed = state.units.iter().zip(0..).filter_map(|(unit, slot)| {
        let unit = unit.as_ref().filter(|unit| unit.log.is_none())?;
        let view = version.units().iter().find(|view| view.id == unit.id)?.clone();
        Some(Input { slot, view })
    });
    let sealed: Vec<Input> = sealed.collect();
    let sparse =
        |input: &Input| f64::from(input.view.live()) < f64::from(input.view.rows) * options.compact_below;
    let small = |input: &Input| input.view.live() < SMALL_ROWS;
    let many_small = options.compact_small > 0
        && sealed.iter().filter(|input| small(input)).count() >= options.compact_small;
    let mut bytes = 0;
    let wanted = sealed.into_iter().filter(|input| sparse(input) || (many_small && small(input)));
    let bounded = wanted.take_while(|input| {
        let first = bytes == 0;
        bytes += most_bytes(&input.view).max(1);
        first || bytes <= options.compact_bytes
    });
    let chosen: Vec<Input> = bounded.collect();
    // A single small unit would be rewritten again and again.
    if chosen.len() == 1 && !chosen.iter().all(sparse) { Vec::new() } else { chosen }
}

/// The largest possible size of the live rows of a unit. The longest values may all be live.
fn most_bytes(view: &UnitView) -> u64 {
    let (live, rows) = (u128::from(view.live()), u128::from(view.rows.max(1)));
    let columns = view.data.base.iter().flat_map(|base| {
        let columns = base.schema.columns.iter().enumerate();
        columns.map(move |(at, column)| (column.field.data_type(), base.column_bytes(at)))
    });
    let bytes = columns.map(|(data_type, bytes)| match Part::of(data_type) {
        Some(Part::Null | Part::Bits | Part::Fixed(_)) => (u128::from(bytes) * live / rows) as u64,
        _ => bytes,
    });
    bytes.sum()
}

fn gather(
    table: &SharedTable,
    schema: &Arc<SchemaVersion>,
    inputs: &[Input],
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<Output> {
    let mut output =
        Output { hashes: Vec::new(), lsns: Lsns::default(), origins: Vec::new(), columns: Vec::new() };
    for input in inputs {
        let lsns = input.view.data.lsns();
        let state = table.read();
        let Some(unit) = state.unit(Location { slot: input.slot, row: 0 }) else { continue };
        for (rows, lsn) in lsns.ranges(input.view.rows) {
            for row in rows.filter(|row| !input.view.dead.contains(*row)) {
                output.lsns.push(output.hashes.len() as u32, lsn);
                output.hashes.push(unit.hash(row));
                output.origins.push(Location { slot: input.slot, row });
            }
        }
    }
    for column in &schema.columns {
        let pieces: Vec<ArrayRef> = inputs
            .iter()
            .map(|input| {
                between()?;
                live_column(&input.view, column.id, column.field.data_type())
            })
            .collect::<Result<_>>()?;
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        output.columns.push(concat(&pieces).map_err(|error| OplogError::invalid(error.to_string()))?);
    }
    Ok(output)
}

/// Live values of a column; nulls if the unit is older than the column.
fn live_column(view: &UnitView, id: u32, data_type: &arrow_schema::DataType) -> Result<ArrayRef> {
    let Some(position) = view.schema.position(id) else {
        return Ok(new_null_array(data_type, view.live() as usize));
    };
    let column = view.whole_column(position)?;
    let live: Option<BooleanBuffer> = view.dead.live_mask(0, view.rows as usize);
    match live {
        None => Ok(column),
        Some(live) => filter(&column, &BooleanArray::new(live, None))
            .map_err(|error| OplogError::invalid(error.to_string())),
    }
}

impl TableState {
    /// Slots of units without live rows that take no more rows.
    fn dead_units(&self) -> impl Iterator<Item = usize> + '_ {
        let open = self.open.map(|slot| slot as usize);
        let units = self.units.iter().enumerate().filter(move |(slot, _)| Some(*slot) != open);
        units.filter(|(_, unit)| unit.as_ref().is_some_and(|unit| unit.live() == 0)).map(|(slot, _)| slot)
    }

    /// Takes the dead units out; gives whether there was one.
    fn drop_dead_units(&mut self) -> bool {
        let dead: Vec<usize> = self.dead_units().collect();
        for slot in &dead {
            if let Some(unit) = self.units.get_mut(*slot) {
                *unit = None;
            }
        }
        !dead.is_empty()
    }

    /// Takes an input out, if it is still there.
    fn take(&mut self, input: &Input) -> Option<Unit> {
        let slot = self.units.get_mut(input.slot as usize)?;
        slot.take_if(|unit| unit.id == input.view.id)
    }

    /// Puts a rewritten unit in the place of its inputs. Rows that died meanwhile are dead in it too.
    fn install(&mut self, id: u64, base: Base, hashes: Vec<u64>, origins: &[Location], inputs: &[Input]) {
        let taken: Vec<Option<Unit>> = inputs.iter().map(|input| self.take(input)).collect();
        if taken.iter().any(Option::is_none) {
            // The table was emptied meanwhile.
            return;
        }
        let mut dead = DeadRows::default();
        let slot = self.units.len() as u32;
        for ((origin, hash), row) in origins.iter().zip(&hashes).zip(0..) {
            let input = inputs.iter().position(|input| input.slot == origin.slot);
            let old = input.and_then(|at| taken.get(at)?.as_ref());
            if old.is_none_or(|old| old.dead.contains(origin.row)) {
                dead.insert(row);
            } else {
                self.index.redirect(*hash, *origin, Location { slot, row });
            }
        }
        self.add(Unit::of_base(id, base, Hashes::Growing(hashes), dead));
    }
}
