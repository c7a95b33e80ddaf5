//! Runs a generation: plan, check the target, write all parts.

use std::cmp::Reverse;
use std::thread::available_parallelism;

use arrow::datatypes::SchemaRef;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::plan::{Part, TablePlan};
use super::progress::Progress;
use super::request::{Dataset, Request, Summary, TableSummary};
use super::target::Target;
use super::writer::{Written, write_part};
use super::{ssb, tpcds, tpch};

/// The tables of a data set, in the order in which a summary lists them.
pub fn tables(dataset: Dataset) -> &'static [&'static str] {
    match dataset {
        Dataset::Ssb => &ssb::TABLES,
        Dataset::Tpch => &tpch::TABLES,
        Dataset::Tpcds => &tpcds::TABLES,
    }
}

/// Generates a data set. Each table becomes a folder `<out>/<table>/` of files
/// `<table>-<n>.parquet`, zstd, in row groups of about a million rows, in the order of the generator.
///
/// Fails before anything is written when the scale is out of range, the location cannot be used, or
/// a table's folder is not empty and `overwrite` is not set. A failure later leaves the files that
/// were complete. Dropping the future stops the generation.
pub async fn run(request: &Request, progress: &Progress) -> anyhow::Result<Summary> {
    let plan = plan(request)?;
    let target = Target::open(&request.out, &request.storage)?;
    target.prepare(tables(request.dataset), request.overwrite).await?;
    let tables = plan.iter().map(|table| empty_summary(table.name, &target)).collect();
    let threads = match request.threads {
        0 => available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let written = write_all(jobs(plan), &target, threads, progress, Summary { tables }).await;
    progress.finish();
    written
}

/// Writes the files, `threads` at a time, and adds them to the summary.
async fn write_all(
    jobs: Vec<Job>,
    target: &Target,
    threads: usize,
    progress: &Progress,
    mut summary: Summary,
) -> anyhow::Result<Summary> {
    progress.expect(jobs.iter().map(|job| job.part.expected_rows).sum());
    let files = stream::iter(jobs).map(|job| write_job(job, target, progress));
    let mut written = files.buffer_unordered(threads);
    while let Some((table, file)) = written.try_next().await? {
        if let Some(table) = summary.tables.get_mut(table) {
            table.rows += file.rows;
            table.bytes += file.bytes;
            table.files += 1;
        }
    }
    Ok(summary)
}

fn plan(request: &Request) -> anyhow::Result<Vec<TablePlan>> {
    match request.dataset {
        Dataset::Ssb => ssb::plan(request.scale),
        Dataset::Tpch => tpch::plan(request.scale),
        Dataset::Tpcds => tpcds::plan(request.scale),
    }
}

fn empty_summary(name: &'static str, target: &Target) -> TableSummary {
    TableSummary { name, rows: 0, files: 0, bytes: 0, location: target.table_url(name) }
}

/// One file to write.
struct Job {
    /// Index of the table in the plan.
    table: usize,
    name: &'static str,
    number: usize,
    schema: SchemaRef,
    part: Part,
}

/// All files of all tables, the largest first, so that no core is left alone with a large one.
fn jobs(plan: Vec<TablePlan>) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (table, TablePlan { name, schema, parts }) in plan.into_iter().enumerate() {
        for (number, part) in parts.into_iter().enumerate() {
            jobs.push(Job { table, name, number, schema: schema.clone(), part });
        }
    }
    jobs.sort_by_key(|job| Reverse(job.part.expected_rows));
    jobs
}

async fn write_job(job: Job, target: &Target, progress: &Progress) -> anyhow::Result<(usize, Written)> {
    let path = target.file(job.name, job.number);
    let written = write_part(target.store().clone(), path, job.schema, job.part, progress.clone()).await?;
    Ok((job.table, written))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::path::Path;

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::basic::Compression;

    use super::*;

    #[tokio::test]
    async fn a_data_set_lies_in_one_folder_for_each_table() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::hidden();
        let summary = run(&request(folder.path()), &progress).await.unwrap();
        assert_eq!(summary.tables.iter().map(|table| table.name).collect::<Vec<_>>(), tables(Dataset::Ssb));
        assert_eq!(progress.rows(), summary.rows());
        for table in &summary.tables {
            let file = folder.path().join(table.name).join(format!("{}-0.parquet", table.name));
            assert_eq!(std::fs::metadata(&file).unwrap().len(), table.bytes);
            let file = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).unwrap()).unwrap();
            let metadata = file.metadata();
            assert_eq!(metadata.file_metadata().num_rows() as u64, table.rows);
            assert!(matches!(metadata.row_group(0).column(0).compression(), Compression::ZSTD(_)));
            assert!(file.schema().fields().iter().all(|field| !field.is_nullable()));
            assert_eq!((table.files, table.location.starts_with("file:///")), (1, true));
        }
    }

    #[tokio::test]
    async fn threads_do_not_change_a_byte() {
        let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        run(&Request { threads: 1, ..request(one.path()) }, &Progress::hidden()).await.unwrap();
        run(&Request { threads: 8, ..request(many.path()) }, &Progress::hidden()).await.unwrap();
        for table in tables(Dataset::Ssb) {
            let file = format!("{table}/{table}-0.parquet");
            let read = |folder: &Path| std::fs::read(folder.join(&file)).unwrap();
            assert!(read(one.path()) == read(many.path()), "{table}");
        }
    }

    #[tokio::test]
    async fn what_lies_there_is_kept_unless_it_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        std::fs::create_dir(&part).unwrap();
        std::fs::write(part.join("part-7.parquet"), "stale").unwrap();
        std::fs::write(part.join("notes.md"), "mine").unwrap();
        let error = run(&request(folder.path()), &Progress::hidden()).await.unwrap_err().to_string();
        assert!(error.contains("/part/` is not empty") && error.contains("--overwrite"), "{error}");
        assert!(!folder.path().join("lineorder").exists());
        let overwrite = Request { overwrite: true, ..request(folder.path()) };
        run(&overwrite, &Progress::hidden()).await.unwrap();
        assert!(!part.join("part-7.parquet").exists() && part.join("part-0.parquet").exists());
        assert!(part.join("notes.md").exists());
    }

    #[tokio::test]
    async fn what_cannot_be_done_is_said_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let check = async |request: Request, words: &str| {
            let error = run(&request, &Progress::hidden()).await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        check(Request { scale: -1.0, ..request(folder.path()) }, "scale of `ssb`").await;
        check(Request { out: "gopher://x".into(), ..request(folder.path()) }, "scheme `gopher`").await;
        let mut elsewhere = request(folder.path());
        elsewhere.storage.allowed_locations = vec!["s3://only/".into()];
        check(elsewhere, "is not allowed").await;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A file where a folder must be: the writing fails, and the error says of which file.
    #[tokio::test]
    async fn a_failure_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("supplier"), "in the way").unwrap();
        let error = run(&request(folder.path()), &Progress::hidden()).await.unwrap_err();
        assert!(format!("{error:#}").contains("supplier"), "{error:#}");
    }

    fn request(folder: &Path) -> Request {
        Request::new(Dataset::Ssb, 0.001, folder.to_str().unwrap())
    }
}
