//! Runs the files of a suite, several at once.

use crate::answer::Answer;
use crate::compare::{Kind, compare};
use crate::expected;
use crate::files::{self, Expects, Question};
use crate::options::Options;
use crate::report::{Difference, Report};
use crate::server::Server;
use crate::skipped::Skipped;
use crate::spelling::Spelling;
use sqllogictest::SortMode;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What every connection needs.
struct Run<'a> {
    options: &'a Options,
    skipped: Skipped,
    spelling: Spelling,
    files: Vec<PathBuf>,
    next: AtomicUsize,
    report: Mutex<Report>,
}

/// Asks the files of the sample; the error is one of the set-up.
pub fn run(options: &Options) -> Result<Report, String> {
    let found =
        files::below(&options.folder).map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let run = Run {
        options,
        skipped: Skipped::read(options.skipped.as_deref(), &options.suite)?,
        spelling: Spelling::new(),
        files: found,
        next: AtomicUsize::new(0),
        report: Mutex::new(Report::open(options)?),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.connections {
            scope.spawn(|| run.worker());
        }
    });
    run.report.into_inner().map_err(|_| "a connection's thread failed".into())
}

impl Run<'_> {
    fn worker(&self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = self.files.get(number) else { return };
            let name = path.strip_prefix(&self.options.folder).unwrap_or(path).display().to_string();
            if !name.contains(&self.options.only) || !self.options.takes(self.options.files, &name, 0) {
                continue;
            }
            match self.skipped.file(&name) {
                Some(reason) => self.with_report(|report| report.skip_file(reason)),
                None => runtime.block_on(self.file(number, &name, path)),
            }
        }
    }

    async fn file(&self, number: usize, name: &str, path: &Path) {
        let questions = match files::questions(path) {
            Ok(questions) => questions,
            Err(error) => return self.with_report(|report| report.unreadable(name, &error)),
        };
        let schema = format!("foreign_{number}");
        let servers = (
            Server::connect(&self.options.postgres, &schema).await,
            Server::connect(&self.options.nyala, &schema).await,
        );
        let (mut postgres, mut nyala) = match servers {
            (Ok(postgres), Ok(nyala)) => (postgres, nyala),
            (Err(error), _) | (_, Err(error)) => {
                return self.with_report(|report| report.unreadable(name, &error));
            }
        };
        for (number, question) in questions.iter().enumerate() {
            if is_query(&question.sql) && !self.options.takes(self.options.every, name, number as u64) {
                continue;
            }
            if let Some(reason) = self.skipped.record(&question.sql) {
                self.with_report(|report| report.skip_record(reason));
                continue;
            }
            self.question(name, question, &mut postgres, &mut nyala).await;
        }
        postgres.leave().await;
        nyala.leave().await;
        self.with_report(|report| report.end_file(name));
    }

    /// What PostgreSQL refuses is no measure. Nyala is asked all the same if it changes nothing, because it must not break.
    async fn question(&self, name: &str, question: &Question, postgres: &mut Server, nyala: &mut Server) {
        let sql = self.spelling.for_postgres(&question.sql);
        let right = postgres.ask(&sql).await;
        if right.is_error() {
            let found = if is_query(&sql) { nyala.ask(&sql).await } else { Answer::Done };
            return self.with_report(|report| {
                let is_fault = found.is_fault();
                report.refused(&found);
                if is_fault {
                    report.differ(difference(name, question, &sql, Kind::Fault, &right, &found));
                }
            });
        }
        let sort = match question.expects {
            Expects::Rows { sort, .. } => sort,
            _ => SortMode::NoSort,
        };
        let found = nyala.ask(&sql).await;
        let kind = compare(&sql, sort, &right, &found);
        self.with_report(|report| {
            report.count(kind);
            if kind > Kind::LastDigits {
                report.differ(difference(name, question, &sql, kind, &right, &found));
            }
        });
    }

    fn with_report(&self, act: impl FnOnce(&mut Report)) {
        if let Ok(mut report) = self.report.lock() {
            act(&mut report);
        }
    }
}

fn difference<'a>(
    file: &'a str,
    question: &'a Question,
    sql: &'a str,
    kind: Kind,
    right: &'a Answer,
    found: &'a Answer,
) -> Difference<'a> {
    let as_file = (expected::is_met(&question.expects, right), expected::is_met(&question.expects, found));
    Difference { file, line: question.line, sql, kind, expects: &question.expects, right, found, as_file }
}

fn is_query(sql: &str) -> bool {
    let start = sql.trim_start_matches(|first: char| first.is_whitespace() || first == '(');
    let word: String = start.chars().take_while(char::is_ascii_alphabetic).collect();
    ["select", "with", "values", "table"].contains(&word.to_ascii_lowercase().as_str())
}
