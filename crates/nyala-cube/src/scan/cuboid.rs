//! Cuboid files as a table: dimensions first, then the states of every measure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigOptions, ParquetOptions, TableParquetOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use nyala_model::{CuboidEntry, NodeId};

use super::damage::DamageReports;
use super::file_reads::FileReads;
use super::hot::{Conditions, CuboidKey, HotCuboidExec, HotCuboids, HotScan, NoValues, Source};
use super::reader::CheckedReaderFactory;
use super::stores::DATA_STORE;

/// The cells of one cuboid in one segment.
#[derive(Debug, Clone)]
pub struct CuboidPart {
    /// Folder of the segment, relative to the data store, with a trailing slash.
    pub folder: String,
    /// The cuboid.
    pub cuboid: CuboidEntry,
}

/// Extension of a session's configuration: the plan is made without the values that its filters compare with. Scans of memory
/// choose their rows later, when the values are known ([`HotCuboidExec::refiltered`]).
#[derive(Debug)]
pub struct WithoutValues;

/// Extension of a session's configuration: nodes that keep the cuboids of a plan that are not in memory here.
#[derive(Debug, Default)]
pub struct KeptElsewhere(Mutex<Vec<Option<NodeId>>>);

impl KeptElsewhere {
    fn note(&self, node: Option<NodeId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(node);
    }

    /// The node that keeps all these cuboids; none if several nodes keep them, if one may be loaded here, or if there are none.
    pub fn node(&self) -> Option<NodeId> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = noted.first()?.clone()?;
        noted.iter().all(|node| node.as_ref() == Some(&first)).then_some(first)
    }
}

impl CuboidPart {
    /// The name that decides which node keeps the cuboid: the same for all segments of a cube, so that one node can answer.
    fn kept_as(&self) -> String {
        let cube = self.folder.trim_end_matches('/').rsplit_once('/').map_or("", |(cube, _)| cube);
        format!("{cube}/{}", self.cuboid.dimensions)
    }

    /// The path of the first file, which no other cuboid ever has.
    fn path(&self) -> String {
        let first = self.cuboid.files.first().map_or("", |file| file.name.as_str());
        format!("{}{first}", self.folder)
    }
}

/// A hash of the columns in their order. Dropping a measure of the cube moves the columns after it, while the
/// files of a cuboid stay.
fn layout_of(schema: &SchemaRef) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.fields().iter().for_each(|field| field.name().hash(&mut hasher));
    hasher.finish()
}

/// One cuboid in some segments, from memory where it is held there, else from its files. Everything
/// needed to scan these comes from the catalog: no listing, and footers are read once and kept.
#[derive(Debug)]
pub struct CuboidTable {
    parts: Vec<CuboidPart>,
    schema: SchemaRef,
}

impl CuboidTable {
    /// A table over `parts`, with files of `schema`.
    pub fn new(parts: Vec<CuboidPart>, schema: SchemaRef) -> Self {
        Self { parts, schema }
    }

    /// Reads the cuboid from its files, even if it is in memory.
    pub fn scan_files(
        &self,
        state: &dyn Session,
        projection: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let url = ObjectStoreUrl::parse(DATA_STORE)?;
        let runtime = state.runtime_env();
        let files = match state.config().get_extension::<FileReads>() {
            Some(files) => files.for_session(state),
            // A plan that no engine runs has no configured reads.
            None => FileReads::of_store(runtime.object_store(&url)?).of_constant_files(),
        };
        let factory = CheckedReaderFactory {
            files,
            footers: runtime.cache_manager.get_file_metadata_cache(),
            reports: state.config().get_extension::<DamageReports>(),
        };
        let options = TableParquetOptions {
            global: reading_options(state.config_options()),
            ..TableParquetOptions::default()
        };
        let source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(factory));
        let scan = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_group(self.files())
            .with_projection_indices(projection)?
            .with_limit(limit)
            .with_statistics(self.table_statistics())
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// Parts that memory holds are read there; the others from files, and may be in memory soon.
    fn scan_memory(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> datafusion::error::Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(hot) = state.config().get_extension::<HotCuboids>() else { return Ok(None) };
        let scan = Arc::new(self.hot_scan(&hot, state, projection)?);
        if state.config().get_extension::<WithoutValues>().is_some() {
            return Ok(Some(Arc::new(HotCuboidExec::without_values(scan))));
        }
        let conditions = Conditions::planned(filters, &self.schema, state)?;
        let (mut held, mut absent) = (Vec::new(), Vec::new());
        let noted = state.config().get_extension::<KeptElsewhere>();
        for (part, key) in self.parts.iter().zip(&scan.keys) {
            match hot.find(key, &scan.columns) {
                Ok(cuboid) => {
                    let ranges = match &conditions {
                        Some(conditions) => conditions.ranges(
                            &cuboid,
                            &NoValues,
                            &mut conditions.undecided(),
                            scan.batch_rows,
                        )?,
                        None => cuboid.all(scan.batch_rows),
                    };
                    held.push((cuboid, ranges));
                }
                Err(missing) => {
                    let elsewhere = hot.elsewhere(key, || part.kept_as());
                    let is_kept_elsewhere = elsewhere.is_some();
                    if let Some(noted) = &noted {
                        noted.note(elsewhere);
                    }
                    if is_kept_elsewhere {
                        absent.push(part.clone());
                        continue;
                    }
                    let only = Self::new(vec![part.clone()], Arc::clone(&self.schema));
                    hot.load(key, missing, |columns| only.source(state, columns))?;
                    absent.push(part.clone());
                }
            }
        }
        if held.is_empty() {
            return Ok(None);
        }
        let memory = Arc::new(HotCuboidExec::new(scan, held));
        if absent.is_empty() {
            return Ok(Some(memory));
        }
        let files =
            Self::new(absent, Arc::clone(&self.schema)).scan_files(state, projection.cloned(), None)?;
        Ok(Some(UnionExec::try_new(vec![memory, files])?))
    }

    fn hot_scan(
        &self,
        hot: &Arc<HotCuboids>,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
    ) -> datafusion::error::Result<HotScan> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let layout = layout_of(&self.schema);
        let keys = self.parts.iter().map(|part| CuboidKey { path: part.path(), layout });
        Ok(HotScan {
            hot: Arc::clone(hot),
            keys: keys.collect(),
            schema: Arc::new(self.schema.project(&columns)?),
            columns,
            batch_rows: state.config().batch_size(),
            partitions: state.config().target_partitions(),
        })
    }

    /// How one part is read from its files.
    fn source(&self, state: &dyn Session, columns: &[usize]) -> datafusion::error::Result<Source> {
        Ok(Source {
            plan: self.scan_files(state, Some(columns.to_vec()), None)?,
            runtime: Arc::clone(state.runtime_env()),
            dimensions: self.parts.first().map_or(0, |part| part.cuboid.dimensions.len()),
            rows: usize::try_from(self.rows()).unwrap_or(usize::MAX),
        })
    }

    fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.cuboid.rows).sum()
    }

    fn files(&self) -> FileGroup {
        let files = self.parts.iter().flat_map(|part| {
            part.cuboid.files.iter().map(|file| {
                let path = format!("{}{}", part.folder, file.name);
                let file = PartitionedFile::new(path, file.bytes).with_extension(file.clone());
                // A file with additional columns has a schema of its own, which only the file has.
                if part.cuboid.wider { file } else { file.with_arrow_schema(Arc::clone(&self.schema)) }
            })
        });
        FileGroup::new(files.collect())
    }
}

#[async_trait]
impl TableProvider for CuboidTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.scan_memory(state, projection, filters)? {
            Some(scan) => Ok(scan),
            None => self.scan_files(state, projection.cloned(), limit),
        }
    }

    /// Filters reach the Parquet reader as physical expressions, which prune row groups and pages;
    /// they still have to be evaluated above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.table_statistics())
    }
}

fn reading_options(options: &ConfigOptions) -> ParquetOptions {
    ParquetOptions {
        // Cuboids have no bloom filters, and looking for them costs a lookup for each row group.
        bloom_filter_on_read: false,
        // Filters on cuboids are selective: columns are decoded only where the earlier ones matched.
        pushdown_filters: true,
        ..options.execution.parquet.clone()
    }
}

impl CuboidTable {
    fn table_statistics(&self) -> Statistics {
        Statistics {
            num_rows: exact(self.rows()),
            total_byte_size: exact(self.parts.iter().map(|part| part.cuboid.bytes).sum()),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }
    }
}

fn exact(count: u64) -> Precision<usize> {
    usize::try_from(count).map_or(Precision::Absent, Precision::Exact)
}
