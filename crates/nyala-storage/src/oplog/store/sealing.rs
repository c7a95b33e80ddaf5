//! Turning rows that lie in logs into columns.

use std::sync::Arc;

use arrow_array::ArrayRef;

use super::inner::Inner;
use super::upkeep::Upkeep;
use crate::oplog::error::Result;
use crate::oplog::files::UnitFiles;
use crate::oplog::table::SharedTable;
use crate::oplog::unit::{Lsns, UnitView, key_header, seal};

/// A unit that takes no more frames.
struct Frozen {
    slot: usize,
    view: Arc<UnitView>,
    hashes: Vec<u64>,
    lsns: Lsns,
}

impl Inner {
    /// Seals every unit that no longer grows; gives whether there was one.
    pub fn seal_frozen(&self, upkeep: &mut Upkeep) -> Result<bool> {
        self.each_whole_table(|table| {
            let mut any = false;
            while let Some(frozen) = frozen_unit(table) {
                self.seal_unit(upkeep, table, frozen)?;
                any = true;
            }
            Ok(any)
        })
    }

    fn seal_unit(&self, upkeep: &mut Upkeep, table: &Arc<SharedTable>, frozen: Frozen) -> Result<()> {
        let Frozen { slot, view, hashes, lsns } = frozen;
        let id = table.meta().id;
        let remove = |state: &mut crate::oplog::table::TableState| {
            state
                .units
                .get_mut(slot)
                .filter(|unit| unit.as_ref().is_some_and(|unit| unit.id == view.id))
                .map(Option::take)
        };
        if view.live() == 0 {
            table.change(|state| drop(remove(state)));
            return Ok(());
        }
        let columns: Vec<ArrayRef> =
            (0..view.schema.columns.len()).map(|column| view.whole_column(column)).collect::<Result<_>>()?;
        let header = key_header(self.store, id, view.id, upkeep.take_number());
        let mut between = || self.keep_log_short(upkeep);
        let (base, seg, key) =
            seal(&self.folder, header, &view.schema, &hashes, &lsns, columns, &mut between)?;
        base.load_keys()?;
        let files =
            UnitFiles { seg: Some(seg), key: Some(key), ..*upkeep.files.entry((id, view.id)).or_default() };
        upkeep.files.insert((id, view.id), files);
        table.change(|state| {
            let unit = state.units.get_mut(slot).and_then(Option::as_mut);
            if let Some(unit) = unit.filter(|unit| unit.id == view.id) {
                unit.sealed(base);
            }
        });
        Ok(())
    }
}

fn frozen_unit(table: &SharedTable) -> Option<Frozen> {
    let state = table.read();
    let frozen = |unit: &crate::oplog::unit::Unit| matches!(unit.log, Some((_, _, Some(_))));
    let slot = state.units.iter().position(|unit| unit.as_ref().is_some_and(frozen))?;
    let unit = state.units.get(slot)?.as_ref()?;
    let version = table.version();
    let view = version.units().iter().find(|view| view.id == unit.id)?.clone();
    Some(Frozen { slot, view, hashes: unit.hashes.as_slice().to_vec(), lsns: unit.data.lsns() })
}
