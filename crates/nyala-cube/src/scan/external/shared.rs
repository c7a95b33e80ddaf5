//! Scans of files that every node reaches, as they travel between nodes.
//!
//! A scan of Parquet files is encoded by DataFusion, which leaves out everything that belongs to a process: readers with their
//! caches, how columns of files become those of the table, and the tags that tell two versions of a file apart. A node that gets
//! a scan puts these back, from its own entry of the same table.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::QualifiedName;
use object_store::path::Path;

use super::table::ExternalTable;
use crate::scan::sound_reader::SoundReaderFactory;

/// The table that a file was listed for, if every node reaches the file.
#[derive(Debug, Clone)]
pub struct SharedFileOf(pub QualifiedName);

/// A scan of files that every node reaches. Any node may do any part of it.
#[derive(Debug, Clone, Copy)]
pub struct SharedScan<'a> {
    /// The table.
    pub table: &'a QualifiedName,
    config: &'a FileScanConfig,
}

impl<'a> SharedScan<'a> {
    /// The scan that an operator is; none if it is another operator, or reads files of this machine, rows in an order, or only
    /// some rows of a file.
    pub fn of(plan: &'a dyn ExecutionPlan) -> Option<Self> {
        let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
        config.file_source().downcast_ref::<ParquetSource>()?;
        let mut files = config.file_groups.iter().flat_map(FileGroup::files);
        let table = &files.next()?.extension::<SharedFileOf>()?.0;
        let is_whole = |file: &PartitionedFile| {
            file.extension::<SharedFileOf>().is_some_and(|of| of.0 == *table)
                && file.extension::<ParquetRowSelection>().is_none()
        };
        let mut files = config.file_groups.iter().flat_map(FileGroup::files);
        let in_any_order = config.output_ordering.is_empty()
            && config.output_partitioning.is_none()
            && !config.preserve_order;
        (in_any_order && files.all(is_whole)).then_some(Self { table, config })
    }

    /// The name of the store.
    pub fn store(&self) -> &str {
        self.config.object_store_url.as_str()
    }

    /// Its files, whole; none if it reads only parts of one.
    pub fn files(&self) -> Option<Vec<PartitionedFile>> {
        let mut found: BTreeMap<&Path, (PartitionedFile, u64)> = BTreeMap::new();
        for file in self.config.file_groups.iter().flat_map(FileGroup::files) {
            let bytes = match &file.range {
                Some(range) => u64::try_from(range.end.checked_sub(range.start)?).ok()?,
                None => file.object_meta.size,
            };
            let whole = || (PartitionedFile { range: None, ..file.clone() }, 0);
            found.entry(&file.object_meta.location).or_insert_with(whole).1 += bytes;
        }
        let files = found.into_values();
        files.map(|(file, bytes)| (file.object_meta.size == bytes).then_some(file)).collect()
    }

    /// This scan of other parts of its files.
    pub fn with_files(&self, groups: Vec<Vec<PartitionedFile>>) -> Arc<dyn ExecutionPlan> {
        let groups = groups.into_iter().map(FileGroup::new).collect();
        let mut config = self.config.clone();
        config.file_groups = groups;
        DataSourceExec::from_data_source(config)
    }

    /// The tags that tell versions of its files apart, in the order of the files.
    pub fn tags(&self) -> Vec<Option<String>> {
        let files = self.config.file_groups.iter().flat_map(FileGroup::files);
        files.map(|file| file.object_meta.e_tag.clone()).collect()
    }
}

impl ExternalTable {
    /// A scan of this table that another node has sent, with the readers of this process. `tags` are those of the sender.
    pub fn adopt(
        &self,
        scan: &dyn ExecutionPlan,
        tags: Vec<Option<String>>,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = scan.downcast_ref::<DataSourceExec>();
        let Some((config, source)) = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>())
        else {
            return internal_err!("another node sent no scan of Parquet files");
        };
        if config.object_store_url != *self.store_url() {
            return internal_err!("another node reads table `{}` from another store", self.entry().name);
        }
        let mut config = config.clone();
        let files = config.file_groups.iter().map(FileGroup::len).sum::<usize>();
        if files != tags.len() {
            return internal_err!("another node sent {files} parts of files with {} tags", tags.len());
        }
        let mut tags = tags.into_iter();
        let tagged = |group: &FileGroup| {
            let files = group.files().iter().cloned().map(|mut file| {
                file.object_meta.e_tag = tags.next().flatten();
                file
            });
            FileGroup::new(files.collect())
        };
        config.file_groups = config.file_groups.iter().map(tagged).collect();
        let reads = self.reader().reads().for_session(state);
        let footers = state.runtime_env().cache_manager.get_file_metadata_cache();
        let source = source.clone().with_parquet_file_reader_factory(SoundReaderFactory::new(reads, footers));
        let builder = FileScanConfigBuilder::from(config).with_source(Arc::new(source));
        Ok(DataSourceExec::from_data_source(builder.with_expr_adapter(self.reader().adapter()).build()))
    }
}
