//! How the files of a table are read: their format with its options.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::config::CsvOptions;
use datafusion::datasource::file_format::FileFormat as FormatOfFiles;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::FileSource;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use nyala_model::FileFormat;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::file_reads::FileReads;
use super::parquet_files::{FileColumns, SoundParquet};
use super::text_files::{Csv, Json, TextFiles};

/// A format with its options.
#[derive(Debug, Clone)]
pub struct FileReader {
    format: FileFormat,
    files: Arc<dyn FormatOfFiles>,
    csv: CsvOptions,
    reads: FileReads,
}

impl FileReader {
    /// With options as in `OPTIONS ('format.…' '…')`, for files that `reads` finds.
    pub fn new(
        format: FileFormat,
        mut options: HashMap<String, String>,
        state: &SessionState,
        reads: FileReads,
    ) -> Result<Self> {
        if format == FileFormat::Parquet {
            // Nanoseconds of 64 bits end in 2262.
            options.entry("format.coerce_int96".to_owned()).or_insert_with(|| "us".to_owned());
        }
        let name = format_name(format);
        let factory = state
            .get_file_format_factory(name)
            .ok_or_else(|| QueryError::internal(format!("format `{name}` is not registered")))?;
        let files = factory.create(state, &options).map_err(|error| {
            let message = format!("invalid format option: {}", QueryError::from(error).message);
            QueryError::new(ErrorKind::InvalidDefinition, message)
        })?;
        let csv = files.downcast_ref::<CsvFormat>().map(|csv| csv.options().clone()).unwrap_or_default();
        let files = match format {
            FileFormat::Parquet | FileFormat::Delta => Arc::new(SoundParquet::new(files, reads.clone())) as _,
            _ => files,
        };
        Ok(Self { format, files, csv, reads })
    }

    /// The format.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// DataFusion's format, which reads Parquet files and guesses types of others.
    pub fn format_of_files(&self) -> &Arc<dyn FormatOfFiles> {
        &self.files
    }

    /// Options of CSV files.
    pub fn csv(&self) -> &CsvOptions {
        &self.csv
    }

    /// How the files are compressed as a whole.
    pub fn compression(&self) -> FileCompressionType {
        self.files.compression_type().unwrap_or(FileCompressionType::UNCOMPRESSED)
    }

    /// Reads of the files.
    pub fn reads(&self) -> &FileReads {
        &self.reads
    }

    /// A source of rows with these columns.
    pub fn source(&self, columns: &TableSchema, state: &dyn Session) -> Arc<dyn FileSource> {
        let reads = self.reads.for_session(state);
        match self.format {
            FileFormat::Parquet | FileFormat::Delta => self.files.file_source(columns.clone()),
            FileFormat::Csv => Arc::new(TextFiles::new(Csv(self.csv.clone()), columns.clone(), reads)),
            FileFormat::NdJson => Arc::new(TextFiles::new(Json, columns.clone(), reads)),
        }
    }

    /// Converts columns of files to those of the table; none for text files, which are read as the table's columns.
    pub fn adapter(&self) -> Option<Arc<dyn PhysicalExprAdapterFactory>> {
        (self.format == FileFormat::Parquet).then(|| Arc::new(FileColumns) as _)
    }
}

/// The name DataFusion knows a format by.
fn format_name(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Parquet | FileFormat::Delta => "parquet",
        FileFormat::Csv => "csv",
        FileFormat::NdJson => "json",
    }
}
