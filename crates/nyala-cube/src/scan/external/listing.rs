//! The files of a table as they lie there now, with the values of their partition columns and their statistics.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::error::DataFusionError;
use datafusion::execution::cache::TableScopedPath;
use datafusion::execution::cache::cache_manager::{CachedFileMetadata, SchemaFingerprint};
use futures::{StreamExt, TryStreamExt, stream};
use nyala_sql::error::Result;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::delta::{DeletedRows, DeltaFile};
use super::layout::{Folder, Layout};
use super::partitions::value_of;
use crate::scan::file_reads::FileReads;

/// A data file.
#[derive(Debug, Clone)]
pub struct Found {
    pub meta: ObjectMeta,
    /// The partition folders of the file; for a Delta table, the values of its partition columns.
    pub folders: Vec<Folder>,
    /// Deleted rows, which are not read.
    pub deleted: Option<DeletedRows>,
}

impl From<&DeltaFile> for Found {
    fn from(file: &DeltaFile) -> Self {
        Self { meta: file.meta.clone(), folders: file.values.clone(), deleted: file.deleted.clone() }
    }
}

/// The data files of a layout, by their paths.
pub async fn list(store: &dyn ObjectStore, layout: &Layout) -> Result<Vec<Found>> {
    if !layout.is_folder() {
        let file = match store.head(layout.prefix()).await {
            // The error of a GET has a text, by which a missing bucket is told from a missing file.
            Err(Error::NotFound { .. }) => {
                store.get_range(layout.prefix(), 0..1).await.map_err(DataFusionError::from)?;
                store.head(layout.prefix()).await
            }
            answer => answer,
        };
        let file = file.map_err(DataFusionError::from)?;
        return Ok(vec![Found { meta: file, folders: Vec::new(), deleted: None }]);
    }
    let mut files = Vec::new();
    // Folders that are still to be listed, each with the number of parts of the pattern that lead to it.
    let mut open = vec![(layout.prefix().clone(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let prefix = Some(&folder).filter(|prefix| !prefix.as_ref().is_empty());
        if layout.is_any_below(depth) {
            let found = store.list(prefix).try_filter_map(|file| async { Ok(of_table(file, layout)) });
            files.extend(found.try_collect::<Vec<Found>>().await.map_err(DataFusionError::from)?);
            continue;
        }
        let listed = store.list_with_delimiter(prefix).await.map_err(DataFusionError::from)?;
        files.extend(listed.objects.into_iter().filter_map(|file| of_table(file, layout)));
        let leads_on = |folder: &Path| layout.leads_to(folder, depth);
        open.extend(listed.common_prefixes.into_iter().filter(leads_on).map(|folder| (folder, depth + 1)));
    }
    files.sort_by(|one, other| one.meta.location.cmp(&other.meta.location));
    Ok(files)
}

fn of_table(file: ObjectMeta, layout: &Layout) -> Option<Found> {
    let folders = if file.size > 0 { layout.folders(&file.location) } else { None };
    folders.map(|folders| Found { meta: file, folders, deleted: None })
}

/// Files to be scanned, without statistics.
pub fn partitioned(files: Vec<Found>, partitions: &[FieldRef]) -> Result<Vec<PartitionedFile>> {
    let file = |Found { meta, folders, deleted }: Found| {
        let values = folders.iter().zip(partitions);
        let values = values.map(|((column, text), field)| value_of(column, text, field.data_type()));
        let values = values.collect::<Result<Vec<_>>>()?;
        let mut file = PartitionedFile::new_from_meta(meta).with_partition_values(values);
        if let Some(deleted) = deleted {
            file.extensions.insert_arc(deleted.selection());
        }
        Ok(file)
    };
    files.into_iter().map(file).collect()
}

/// Reads statistics of files that are not in the cache.
pub struct FileStatistics<'a> {
    pub state: &'a dyn Session,
    pub reads: &'a FileReads,
    pub format: &'a Arc<dyn FileFormat>,
    pub schema: &'a SchemaRef,
    pub fingerprint: &'a Arc<SchemaFingerprint>,
}

impl FileStatistics<'_> {
    /// The files with their statistics.
    pub async fn add_to(
        &self,
        files: Vec<PartitionedFile>,
    ) -> datafusion::error::Result<Vec<PartitionedFile>> {
        let at_once = self.state.config_options().execution.meta_fetch_concurrency.get();
        let found = files.into_iter().map(|file| async move {
            let statistics = self.of(&file.object_meta).await?;
            Ok(with_statistics(file, statistics))
        });
        stream::iter(found).buffered(at_once).try_collect().await
    }

    async fn of(&self, file: &ObjectMeta) -> datafusion::error::Result<Arc<Statistics>> {
        let cache = self.state.runtime_env().cache_manager.get_file_statistic_cache();
        let key = TableScopedPath { table: None, path: self.reads.key(file) };
        let known = cache.as_ref().and_then(|cache| cache.get(&key));
        if let Some(known) = known.filter(|known| known.is_valid_for(file, self.fingerprint)) {
            return Ok(Arc::clone(&known.statistics));
        }
        let schema = Arc::clone(self.schema);
        let found = Arc::new(self.format.infer_stats(self.state, self.reads.store(), schema, file).await?);
        if let Some(cache) = cache {
            let entry =
                CachedFileMetadata::new(file.clone(), Arc::clone(self.fingerprint), Arc::clone(&found), None);
            cache.put(&key, entry);
        }
        Ok(found)
    }
}

/// Adds statistics of the file's columns, and of its partition columns: a folder that stands for NULL has no bounds.
pub fn with_statistics(file: PartitionedFile, statistics: Arc<Statistics>) -> PartitionedFile {
    let statistics = match file.extension::<ParquetRowSelection>() {
        Some(rows) => Arc::new(of_rows(rows, &statistics)),
        None => statistics,
    };
    let values = file.partition_values.clone();
    let mut file = file.with_statistics(statistics);
    if values.iter().all(|value| !value.is_null()) {
        return file;
    }
    if let Some(known) = file.statistics.take() {
        let mut known = Arc::unwrap_or_clone(known);
        let rows = known.num_rows;
        let first = known.column_statistics.len().saturating_sub(values.len());
        let columns = known.column_statistics.iter_mut().skip(first);
        for (column, _) in columns.zip(&values).filter(|(_, value)| value.is_null()) {
            column.null_count = rows;
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
            column.distinct_count = Precision::Absent;
        }
        file.statistics = Some(Arc::new(known));
    }
    file
}

/// Statistics of some rows of a file, from the statistics of the file.
fn of_rows(rows: &ParquetRowSelection, file: &Statistics) -> Statistics {
    let mut statistics = file.clone().to_inexact();
    statistics.num_rows = Precision::Exact(rows.selection().row_count());
    statistics
}
