//! The list of what is left out, each line with a reason.
//!
//! `suite path-glob reason` leaves out files; `suite /regular expression/ reason` leaves out records by their SQL. A suite
//! `*` means all; a star in a path stands for any text.

use regex::Regex;
use std::path::Path;

#[derive(Default)]
pub struct Skipped {
    files: Vec<(Regex, String)>,
    records: Vec<(Regex, String)>,
}

impl Skipped {
    /// Reads the lines for one suite; the error names the line that is wrong.
    pub fn read(path: Option<&Path>, suite: &str) -> Result<Skipped, String> {
        let mut skipped = Skipped::default();
        let Some(path) = path else { return Ok(skipped) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let wrong = || format!("{}: cannot read `{line}`", path.display());
            let (name, rest) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            if name != suite && name != "*" {
                continue;
            }
            let rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix('/') {
                let (pattern, reason) = rest.split_once("/ ").ok_or_else(wrong)?;
                let pattern = Regex::new(&format!("(?is){pattern}"))
                    .map_err(|error| format!("{}: {error}", wrong()))?;
                skipped.records.push((pattern, reason.trim().into()));
            } else {
                let (glob, reason) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
                let pattern = format!("^{}$", regex::escape(glob).replace(r"\*", ".*"));
                skipped.files.push((Regex::new(&pattern).map_err(|_| wrong())?, reason.trim().into()));
            }
        }
        Ok(skipped)
    }

    /// Why a file is left out.
    pub fn file(&self, path: &str) -> Option<&str> {
        find(&self.files, path)
    }

    /// Why a record is left out.
    pub fn record(&self, sql: &str) -> Option<&str> {
        find(&self.records, sql)
    }
}

fn find<'a>(list: &'a [(Regex, String)], text: &str) -> Option<&'a str> {
    list.iter().find(|(pattern, _)| pattern.is_match(text)).map(|(_, reason)| reason.as_str())
}
