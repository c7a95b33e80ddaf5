//! What a run found: counts on the terminal, differences in a file.

use crate::answer::Answer;
use crate::compare::Kind;
use crate::files::Expects;
use crate::options::Options;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// One record that PostgreSQL and Nyala answer differently.
pub struct Difference<'a> {
    pub file: &'a str,
    pub line: u32,
    pub sql: &'a str,
    pub kind: Kind,
    pub expects: &'a Expects,
    pub right: &'a Answer,
    pub found: &'a Answer,
    /// Whether PostgreSQL's answer and Nyala's are those of the file.
    pub as_file: (bool, bool),
}

pub struct Report {
    differences: Option<BufWriter<File>>,
    counts: BTreeMap<Kind, u64>,
    files: u64,
    refused_by_both: u64,
    answered_by_nyala_only: u64,
    faults: u64,
    skipped_files: BTreeMap<String, u64>,
    skipped_records: BTreeMap<String, u64>,
}

impl Report {
    pub fn open(options: &Options) -> Result<Report, String> {
        let create = |path| File::create(path).map(BufWriter::new).map_err(|error| error.to_string());
        Ok(Report {
            differences: options.differences.as_ref().map(create).transpose()?,
            counts: BTreeMap::new(),
            files: 0,
            refused_by_both: 0,
            answered_by_nyala_only: 0,
            faults: 0,
            skipped_files: BTreeMap::new(),
            skipped_records: BTreeMap::new(),
        })
    }

    pub fn count(&mut self, kind: Kind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// A record that PostgreSQL refuses.
    pub fn refused(&mut self, found: &Answer) {
        match found {
            found if found.is_fault() => self.faults += 1,
            Answer::Rows { .. } => self.answered_by_nyala_only += 1,
            _ => self.refused_by_both += 1,
        }
    }

    pub fn skip_file(&mut self, reason: &str) {
        *self.skipped_files.entry(reason.into()).or_default() += 1;
    }

    pub fn skip_record(&mut self, reason: &str) {
        *self.skipped_records.entry(reason.into()).or_default() += 1;
    }

    pub fn unreadable(&mut self, file: &str, error: &str) {
        eprintln!("{file}: {error}");
        self.skip_file("cannot be read or begun");
    }

    pub fn end_file(&mut self, _file: &str) {
        self.files += 1;
        if let Some(out) = &mut self.differences {
            let _ = out.flush();
        }
    }

    pub fn differ(&mut self, difference: Difference<'_>) {
        let Some(out) = &mut self.differences else { return };
        let expects = match difference.expects {
            Expects::Success => "success".to_owned(),
            Expects::Failure => "an error".to_owned(),
            Expects::Rows { lines, .. } => lines.iter().take(12).cloned().collect::<Vec<_>>().join(" | "),
        };
        let as_file = match difference.as_file {
            (true, true) => "both",
            (true, false) => "PostgreSQL",
            (false, true) => "Nyala",
            (false, false) => "neither",
        };
        let _ = writeln!(
            out,
            "## {:?} {}:{} (as in the file: {as_file})\n{}\n  file:       {expects}\n  PostgreSQL: {}\n  Nyala:      {}\n",
            difference.kind,
            difference.file,
            difference.line,
            difference.sql.trim(),
            difference.right,
            difference.found
        );
    }

    /// Prints the figures; the exit code is 1 below the share that is wanted, or if a fault was met.
    pub fn finish(self, options: &Options) -> ExitCode {
        let of = |kinds: &[Kind]| kinds.iter().filter_map(|kind| self.counts.get(kind)).sum::<u64>();
        let answered: u64 = self.counts.values().sum();
        let equal = of(&[Kind::Equal, Kind::LastDigits]);
        let share = 100.0 * equal as f64 / answered.max(1) as f64;
        println!(
            "{}: {equal} of {answered} records that PostgreSQL answers are equal ({share:.2} %), {} files",
            options.suite, self.files
        );
        for (kind, count) in &self.counts {
            println!("  {:10} {count}", format!("{kind:?}"));
        }
        println!(
            "  PostgreSQL refuses: {} refused by both, {} answered by Nyala, {} faults",
            self.refused_by_both, self.answered_by_nyala_only, self.faults
        );
        for (what, list) in [("files", &self.skipped_files), ("records", &self.skipped_records)] {
            for (reason, count) in list {
                println!("  left out: {count} {what}: {reason}");
            }
        }
        let faults = self.faults + of(&[Kind::Fault]);
        if share < options.least || faults > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
