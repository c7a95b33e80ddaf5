//! `nyala gen`: the command line of the generators.

use std::io::Write as _;
use std::time::Instant;

use nyala_model::config::StorageConfig;

use super::progress::Progress;
use super::request::{Dataset, Request, Summary};
use super::run::run;

/// Generates the data of a benchmark as Parquet files.
#[derive(Debug, Clone, clap::Args)]
pub struct GenerateArgs {
    /// Which benchmark
    #[arg(value_enum)]
    pub dataset: Dataset,
    /// Scale factor; fractions are fine. At 1, SSB and TPC-H have about 6 million fact rows
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Folder that gets one folder for each table: a path or `s3://bucket/prefix`
    #[arg(long, value_name = "LOCATION")]
    pub out: String,
    /// Replace the Parquet files that lie in the tables' folders
    #[arg(long)]
    pub overwrite: bool,
    /// Files written at the same time; 0 means one for each core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub threads: usize,
}

impl GenerateArgs {
    /// The request these arguments stand for.
    pub fn into_request(self, storage: StorageConfig) -> Request {
        let Self { dataset, scale, out, overwrite, threads } = self;
        Request { dataset, scale, out, overwrite, threads, storage }
    }
}

/// Runs `nyala gen`: progress on stderr, at the end a list of the written tables on stdout.
pub async fn command(args: GenerateArgs, storage: StorageConfig) -> anyhow::Result<()> {
    let started = Instant::now();
    let summary = run(&args.into_request(storage), &Progress::shown()).await?;
    let report = report(&summary, started.elapsed().as_secs_f64());
    std::io::stdout().write_all(report.as_bytes())?;
    Ok(())
}

/// One line for each table and one for all.
fn report(summary: &Summary, seconds: f64) -> String {
    let mut text = String::new();
    for table in &summary.tables {
        text += &format!(
            "{:<22} {:>13} rows {:>5} files {:>11}  {}\n",
            table.name,
            table.rows,
            table.files,
            megabytes(table.bytes),
            table.location
        );
    }
    let (rows, bytes) = (summary.rows(), megabytes(summary.bytes()));
    text + &format!(
        "{rows} rows, {bytes}, in {seconds:.1} s ({:.0} rows/s)\n",
        rows as f64 / seconds.max(0.001)
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::request::TableSummary;

    #[test]
    fn the_report_lists_tables_and_their_sum() {
        let table = |name, rows, bytes| TableSummary {
            name,
            rows,
            files: 1,
            bytes,
            location: format!("file:///d/{name}/"),
        };
        let summary = Summary { tables: vec![table("dates", 2_557, 50_000), table("part", 100, 4_000_000)] };
        let report = report(&summary, 2.0);
        assert!(report.starts_with("dates"), "{report}");
        assert!(report.contains("2557 rows     1 files      0.1 MB  file:///d/dates/\n"), "{report}");
        assert!(report.ends_with("2657 rows, 4.0 MB, in 2.0 s (1328 rows/s)\n"), "{report}");
    }
}
