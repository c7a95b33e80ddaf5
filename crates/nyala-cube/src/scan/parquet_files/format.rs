//! Parquet as a format of external tables: DataFusion's, with files checked before it reads them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Statistics;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::{
    DFParquetMetadata, ordering_from_parquet_metadata,
};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use super::statistics::without_floats;
use crate::scan::bounds::sound_metadata;
use crate::scan::file_reads::FileReads;
use crate::scan::sound_reader::SoundReaderFactory;

/// DataFusion's format. It finds the metadata of files in the cache, where only sound metadata is put.
#[derive(Debug)]
pub struct SoundParquet {
    parquet: Arc<dyn FileFormat>,
    files: FileReads,
}

impl SoundParquet {
    pub fn new(parquet: Arc<dyn FileFormat>, files: FileReads) -> Self {
        Self { parquet, files }
    }

    async fn metadata(&self, state: &dyn Session, file: &ObjectMeta) -> Result<Arc<ParquetMetaData>> {
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let store = self.files.for_session(state).file(file);
        Ok(sound_metadata(store.as_ref(), file, (cache.as_ref(), &self.files.key(file))).await?)
    }

    /// Statistics from the footer. DataFusion would read it again, for page indexes that the file may not have.
    async fn statistics(
        &self,
        state: &dyn Session,
        schema: &SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        let metadata = self.metadata(state, file).await?;
        let statistics = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, schema)?;
        Ok(without_floats(statistics, schema))
    }
}

#[async_trait]
impl FileFormat for SoundParquet {
    fn get_ext(&self) -> String {
        self.parquet.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.parquet.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.parquet.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        let checks: Vec<_> = objects.iter().map(|file| self.metadata(state, file)).collect();
        stream::iter(checks).buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
        self.parquet.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.statistics(state, &table_schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        ordering_from_parquet_metadata(self.metadata(state, object).await?.as_ref(), &table_schema)
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let statistics = self.statistics(state, &table_schema, object).await?;
        let metadata = self.metadata(state, object).await?;
        Ok(FileMeta::new(statistics).with_ordering(ordering_from_parquet_metadata(&metadata, &table_schema)?))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.parquet.create_physical_plan(state, conf).await?;
        let scan = plan.downcast_ref::<DataSourceExec>();
        let Some((files, source)) = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>())
        else {
            return Err(DataFusionError::Internal("a scan of Parquet files reads something else".to_owned()));
        };
        let runtime = state.runtime_env();
        let reads = self.files.for_session(state);
        let readers = SoundReaderFactory::new(reads, runtime.cache_manager.get_file_metadata_cache());
        let source = source.clone().with_parquet_file_reader_factory(readers);
        let files = FileScanConfigBuilder::from(files.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(files))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.parquet.create_writer_physical_plan(input, state, conf, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.parquet.file_source(table_schema)
    }
}
