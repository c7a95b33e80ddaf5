//! The prompt.

use std::borrow::Cow;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;

use anyhow::Result;
use reedline::{
    FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal, ValidationResult,
    Validator,
};

use super::batch;
use super::client::Client;
use super::meta::{HELP, Meta};
use super::output::Output;
use crate::report;
use nyala_client::split::{is_complete, split};

/// Lines that are remembered.
const HISTORY_LINES: usize = 10_000;

/// Reads statements and runs them until the user leaves. Errors are shown, and end nothing.
pub async fn run(client: &Client, mut output: Output) -> Result<()> {
    writeln!(stdout(), "nyala {}; `\\?` helps, `\\q` leaves", env!("CARGO_PKG_VERSION"))?;
    let mut editor = editor();
    loop {
        // Blocks, but only the main thread: signals and sockets have threads of their own.
        let text = match editor.read_line(&Words)? {
            Signal::Success(text) => text,
            Signal::CtrlD => return Ok(()),
            _ => continue,
        };
        match Meta::parse(&text) {
            Some(Meta::Quit) => return Ok(()),
            Some(Meta::Help) => stdout().write_all(HELP.as_bytes())?,
            Some(Meta::Expanded) => {
                output.expanded = !output.expanded;
                writeln!(stdout(), "expanded display is {}", if output.expanded { "on" } else { "off" })?;
            }
            Some(Meta::Include(file)) => match std::fs::read_to_string(&file) {
                Ok(statements) => run_all(client, &statements, output).await?,
                Err(error) => writeln!(stderr(), "error: cannot read `{file}`: {error}")?,
            },
            Some(Meta::Timing) => {
                output.timing = !output.timing;
                writeln!(stdout(), "timing is {}", if output.timing { "on" } else { "off" })?;
            }
            Some(Meta::Statement(statement)) => run_all(client, &statement, output).await?,
            Some(Meta::Unknown(line)) => {
                writeln!(stderr(), "error: unknown command `{line}`\nhint: `\\?` lists the commands")?
            }
            None => run_all(client, &text, output).await?,
        }
    }
}

/// Runs the statements of one input; the first error is shown and the rest left out.
async fn run_all(client: &Client, text: &str, output: Output) -> Result<()> {
    for statement in split(text) {
        match batch::run_one(client, statement, output, &mut stdout()).await {
            Ok(()) => {}
            Err(error) if report::is_closed_output(&error) => return Err(error),
            Err(error) => {
                report::print(&error);
                break;
            }
        }
    }
    Ok(())
}

fn editor() -> Reedline {
    let editor = Reedline::create().with_validator(Box::new(Statements));
    // A history that cannot be kept is no reason not to work.
    match history_file().map(|file| FileBackedHistory::with_file(HISTORY_LINES, file)) {
        Some(Ok(history)) => editor.with_history(Box::new(history)),
        Some(Err(error)) => {
            tracing::warn!(%error, "cannot keep a history");
            editor
        }
        None => editor,
    }
}

/// `$XDG_STATE_HOME/nyala/history`, by default below `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().and_then(absolute).map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("nyala").join("history"))
}

/// Return ends the input when the statement is ended, and starts a new line otherwise.
struct Statements;

impl Validator for Statements {
    fn validate(&self, text: &str) -> ValidationResult {
        if Meta::parse(text).is_some() || is_complete(text) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

/// The text before the input.
struct Words;

impl Prompt for Words {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("nyala")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("    -> ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search `{}`) ", search.term))
    }
}
