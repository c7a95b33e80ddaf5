//! Asks the records of foreign suites of PostgreSQL and of a running Nyala, and compares the answers.
//!
//! It knows nothing of where a suite comes from: `run.sh` beside it fetches them and starts both servers.

mod answer;
mod compare;
mod expected;
mod files;
mod options;
mod report;
mod server;
mod skipped;
mod spelling;
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match suite::run(&options) {
        Ok(report) => report.finish(&options),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
