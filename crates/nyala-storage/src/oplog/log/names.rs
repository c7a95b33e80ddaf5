//! Names of log files.

/// Name of a log.
pub fn log_name(number: u64) -> String {
    format!("{number:010}.log")
}

/// The number in a log's name.
pub fn log_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    digits.parse().ok().filter(|number| log_name(*number) == name)
}
