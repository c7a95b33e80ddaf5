//! A live table that does not exist yet: made in its store and in the catalog, and filled with its first rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use nyala_catalog::{CatalogError, Change, NewTable};
use nyala_cube::live::{OpenStore, ROW_NUMBER, row_number, shown};
use nyala_cube::scan::encode_schema;
use nyala_model::{LiveSource, QualifiedName, TableId, TableSource};
use nyala_sql::error::Result;
use nyala_sql::statement::IfExists;
use nyala_storage::oplog::{DiskStore, LiveTable, OplogError, TableSpec};

use super::dual_write::Asked;
use super::insert::insert;
use super::table_options::Options;
use super::{blocking, find, stores};
use crate::query::deadline::Deadline;
use crate::query::engine::Engine;

/// The parts of a table that does not exist yet.
pub struct Parts {
    pub name: QualifiedName,
    pub schema: Schema,
    /// The columns of the primary key; none if the store numbers the rows.
    pub key: Option<Vec<String>>,
    pub defaults: BTreeMap<String, String>,
    pub definition: String,
    pub options: Options,
    pub if_not_exists: bool,
}

impl Parts {
    /// Rows of the query under the names and types of the table.
    pub fn as_columns(&self, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let of_table = |batch: &RecordBatch| -> Result<RecordBatch> {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
        };
        rows.iter().map(of_table).collect()
    }

    /// The columns and the key as the store has them.
    fn stored(&self) -> (Schema, Vec<String>) {
        match &self.key {
            Some(key) => (self.schema.clone(), key.clone()),
            None => {
                let number = Arc::new(row_number());
                let fields = self.schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>();
                (Schema::new(fields), vec![ROW_NUMBER.to_owned()])
            }
        }
    }

    /// Makes the table and writes its first rows. Returns their number, if the table comes from a query and
    /// is new. If the write fails the table is dropped.
    pub async fn make_filled(
        &self,
        engine: &Engine,
        store: &OpenStore,
        rows: Option<Vec<RecordBatch>>,
        asked: Asked,
    ) -> Result<Option<u64>> {
        let made = self.make(engine, store, asked).await?;
        let (Some(table), Some(rows)) = (made, rows) else { return Ok(None) };
        let filled = self.fill(engine, rows).await;
        if filled.is_err()
            && let Err(error) = self.unmake(engine, table, store).await
        {
            tracing::warn!(table = %self.name, %error, "a table is there without the rows that it was made for");
        }
        filled.map(Some)
    }

    /// Makes the table in its store, then in the catalog. None if there is one of this name already.
    async fn make(&self, engine: &Engine, store: &OpenStore, asked: Asked) -> Result<Option<TableId>> {
        let open = store.opened().await?;
        // Until the catalog has the table, clean-up must not take it for one that a crash left behind.
        let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
        asked.begin().await?;
        let snapshot = engine.snapshots.catalog().snapshot();
        let entry = snapshot.disk_stores.get(store.name());
        let left_over = entry.map(|entry| entry.leftovers.clone()).unwrap_or_default();
        let (schema, key) = self.stored();
        let spec = TableSpec {
            name: String::new(),
            schema: Arc::new(schema),
            key: key.clone(),
            buckets: self.options.buckets,
            durability: self.options.durability,
            ttl_ms: self.options.ttl_ms,
        };
        let wanted = self.name.to_string();
        let made = blocking(move || make_in(&open, &wanted, &left_over, spec)).await?;
        let source = LiveSource {
            store: store.name().to_owned(),
            stored_as: made.name(),
            key,
            numbered: self.key.is_none(),
            defaults: self.defaults.clone(),
        };
        // The columns as the store has them: it supports fewer types.
        let schema_ipc = encode_schema(&shown(&made.schema(), &source));
        let table = NewTable {
            name: self.name.clone(),
            source: TableSource::Live(source),
            schema_ipc,
            definition: self.definition.clone(),
        };
        let change = Change::CreateTable { table, if_not_exists: self.if_not_exists };
        let catalog = engine.snapshots.catalog();
        let committed = catalog.commit(change).await;
        // A commit that failed may have taken effect all the same, or may yet. A table that the catalog has must stay; one of
        // which that is not known stays until the next start, which removes it if the catalog does not have it.
        let known = match &committed {
            Ok(done) => Arc::clone(&done.snapshot),
            Err(_) => catalog.refresh().await?,
        };
        let entry = known.tables.get(&self.name).filter(|entry| {
            entry.live().is_some_and(|live| live.store == store.name() && live.stored_as == made.name())
        });
        let Some(id) = entry.map(|entry| entry.id) else {
            // No statement has seen the table, and it is empty.
            if !committed.as_ref().is_err_and(CatalogError::may_be_made) {
                blocking(move || Ok(made.drop_table()?)).await?;
            }
            return committed.map(|_| None).map_err(Into::into);
        };
        engine.snapshots.refresh().await?;
        Ok(Some(id))
    }

    async fn fill(&self, engine: &Engine, rows: Vec<RecordBatch>) -> Result<u64> {
        let table = find(engine, &self.name)?;
        Ok(insert(&table, rows, IfExists::Replace, None, &Deadline::never()).await?.rows)
    }

    /// Drops the table, unless other statements have written rows to it or made another one of its name.
    async fn unmake(&self, engine: &Engine, table: TableId, store: &OpenStore) -> Result<()> {
        {
            let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
            let found = find(engine, &self.name)?;
            if found.entry().id != table || found.opened().await?.version().rows() > 0 {
                return Ok(());
            }
            let names = vec![self.name.clone()];
            let change = Change::DropTables { names, views: false, if_exists: true, cascade: false };
            engine.snapshots.catalog().commit(change).await?;
            engine.snapshots.refresh().await?;
        }
        stores::forget_in(engine, store, &store.opened().await?).await;
        Ok(())
    }
}

/// Makes a table under a name that the store does not have. Dropped tables may still have their names there.
/// Names of leftovers are not used either, or else clean-up would remove the rows of this table.
fn make_in(
    store: &DiskStore,
    wanted: &str,
    left_over: &BTreeSet<String>,
    spec: TableSpec,
) -> Result<LiveTable> {
    let mut attempt = 0_u32;
    loop {
        let name = if attempt == 0 { wanted.to_owned() } else { format!("{wanted}~{attempt}") };
        attempt += 1;
        if left_over.contains(&name) {
            continue;
        }
        match store.create_table(TableSpec { name, ..spec.clone() }) {
            Ok(made) => return Ok(made),
            Err(OplogError::TableExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
