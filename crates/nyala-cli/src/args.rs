//! The command line.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use nyala_bench::bench::BenchArgs;
use nyala_bench::generate::GenerateArgs;
use nyala_model::listen_text::parse_listen;

use crate::backup::{BackupArgs, RestoreArgs};
use crate::catalog::CatalogArgs;
use crate::config::Flag;
use crate::disk_store::DiskStoreArgs;
use crate::doctor::DoctorArgs;
use crate::ping::PingArgs;
use crate::storage::StorageArgs;

/// An analytics database that answers from cubes.
#[derive(Debug, Parser)]
#[command(name = "nyala", version, about, max_term_width = 100)]
pub struct Args {
    /// The command to run
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves a data folder over the PostgreSQL protocol and HTTP
    Serve(ServeArgs),
    /// Runs SQL: a statement, a file, or typed input
    Sql(SqlArgs),
    /// Generates the Star Schema Benchmark, builds a cube and compares answers with and without it
    Demo(DemoArgs),
    /// Generates the data of a benchmark as Parquet files
    Gen(GenArgs),
    /// Loads a server with queries of many clients and reports throughput and latencies
    Bench(BenchArgs),
    /// Saves a whole data folder to another folder, also while a server runs
    Backup(BackupArgs),
    /// Makes a data folder of a backup
    Restore(RestoreArgs),
    /// Lists copies of a catalog, and puts one in its place when it is lost or damaged
    Catalog(CatalogArgs),
    /// Verifies, saves and repairs the folder of a disk store that no server has open
    DiskStore(DiskStoreArgs),
    /// Moves the cuboids of a data folder to a bucket, and back
    Storage(StorageArgs),
    /// Prints the effective configuration and where each value comes from
    Config(ServeArgs),
    /// Checks what would keep a server from starting here, or from running well
    Doctor(DoctorArgs),
    /// Tells whether a server takes queries; exit code 1 if it does not
    Ping(PingArgs),
    /// Prints a script that completes this command line in your shell
    Completions(CompletionsArgs),
}

/// Where the configuration file is.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// Configuration file [default: nyala.toml in the current folder, if there is one]
    #[arg(long, value_name = "FILE", env = "NYALA_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Arguments of `nyala serve`, and of `nyala config`, which shows the resulting configuration.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServeArgs {
    /// Where the configuration file is
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Folder of catalog, cubes and spill files; overrides `data_dir`
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Address for PostgreSQL clients, or a port of this machine; overrides `server.postgres_listen`
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub postgres_listen: Option<SocketAddr>,
    /// Folder of a Unix socket for PostgreSQL clients of this machine; overrides `server.postgres_socket`
    #[arg(long, value_name = "FOLDER")]
    pub postgres_socket: Option<PathBuf>,
    /// Address for HTTP clients, or a port of this machine; overrides `server.http_listen`
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub http_listen: Option<SocketAddr>,
    /// Address for Arrow Flight SQL clients, or a port of this machine; overrides `server.flight_listen`
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub flight_listen: Option<SocketAddr>,
    /// Address for clients of Kylin's REST API alone, or a port of this machine; overrides `server.kylin_listen`
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    pub kylin_listen: Option<SocketAddr>,
    /// Listen also on addresses that other machines reach when every client may do everything
    #[arg(long)]
    pub allow_unauthenticated: bool,
}

fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    parse_listen(text).ok_or("give an address such as 127.0.0.1:5433, or a port")
}

impl ServeArgs {
    /// The flags that were given, as configuration.
    pub fn flags(&self) -> Vec<Flag> {
        [
            self.data_dir.as_ref().map(|dir| Flag::data_dir(dir)),
            self.postgres_listen
                .map(|address| Flag::new("server.postgres_listen", "--postgres-listen", address.to_string())),
            self.postgres_socket.as_ref().map(|folder| {
                let folder = folder.to_string_lossy().into_owned();
                Flag::new("server.postgres_socket", "--postgres-socket", folder)
            }),
            self.http_listen
                .map(|address| Flag::new("server.http_listen", "--http-listen", address.to_string())),
            self.flight_listen
                .map(|address| Flag::new("server.flight_listen", "--flight-listen", address.to_string())),
            self.kylin_listen
                .map(|address| Flag::new("server.kylin_listen", "--kylin-listen", address.to_string())),
            self.allow_unauthenticated.then(|| {
                Flag::new("server.allow_unauthenticated", "--allow-unauthenticated", true.to_string())
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Arguments of `nyala sql`.
#[derive(Debug, Clone, clap::Args)]
pub struct SqlArgs {
    /// Where the configuration file is
    #[command(flatten)]
    pub config: ConfigArgs,
    /// File of statements to run, each ended by `;`; `-` reads them from standard input
    #[arg(value_name = "FILE", conflicts_with = "statement")]
    pub file: Option<PathBuf>,
    /// Statements to run
    // A statement may begin with a comment.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub statement: Option<String>,
    /// Data folder to open in this process; overrides `data_dir`
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Server to connect to instead, `postgres://host:port/database`; `?sslmode=` asks for encryption as psql does
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    pub url: Option<String>,
    /// PEM file of the authorities that may vouch for the server, like `sslrootcert` in the URL
    #[arg(long, value_name = "FILE", requires = "url")]
    pub ca: Option<PathBuf>,
    /// How results are written
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub format: OutputFormat,
    /// Most rows of a result that are shown at the prompt; 0 means all
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    pub max_rows: usize,
}

/// How `nyala sql` writes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A drawn table with row count and time
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON document for each result, as the HTTP API gives it
    Json,
    /// One JSON object for each row
    Ndjson,
}

/// Arguments of `nyala demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Where the configuration file is
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Scale factor; at 1 there are 6 million orders, about 200 MB of Parquet
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Folder for data, catalog and cube
    #[arg(long, value_name = "FOLDER", default_value = "nyala-demo")]
    pub data_dir: PathBuf,
    /// End after the comparison instead of serving the data
    #[arg(long)]
    pub no_serve: bool,
}

/// Arguments of `nyala gen`.
#[derive(Debug, Clone, clap::Args)]
pub struct GenArgs {
    /// Where the configuration file is; its `storage` part says how S3 is reached
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The data to generate
    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// Arguments of `nyala completions`.
#[derive(Debug, Clone, clap::Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete
    pub shell: clap_complete::Shell,
}

/// Writes the completion script of a shell to stdout.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    // Into memory first, because the generator ends the process when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "nyala", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_statement_may_begin_with_a_comment() {
        let args = Args::try_parse_from(["nyala", "sql", "-c", "-- one\nSELECT 1"]).unwrap();
        let Command::Sql(args) = args.command else { panic!("{args:?}") };
        assert_eq!(args.statement.as_deref(), Some("-- one\nSELECT 1"));
    }

    #[test]
    fn a_statement_and_a_file_exclude_each_other() {
        Args::try_parse_from(["nyala", "sql", "-c", "SELECT 1", "file.sql"]).unwrap_err();
        Args::try_parse_from(["nyala", "sql", "--url", "postgres://h/d", "--data-dir", "d"]).unwrap_err();
    }
}
