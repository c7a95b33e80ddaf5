//! What a server answers.

use std::fmt;

pub type Row = Vec<Option<String>>;

pub enum Answer {
    Rows {
        columns: usize,
        rows: Vec<Row>,
    },
    /// A statement without rows.
    Done,
    Error {
        code: String,
        message: String,
    },
    /// The connection broke, or nothing came back.
    Broken(String),
}

impl Answer {
    pub fn is_error(&self) -> bool {
        matches!(self, Answer::Error { .. } | Answer::Broken(_))
    }

    /// Whether the server says, or shows, that the fault is its own.
    pub fn is_fault(&self) -> bool {
        match self {
            Answer::Broken(_) => true,
            Answer::Error { code, message } => {
                code.starts_with("XX") || message.contains("fault of the server")
            }
            _ => false,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => write!(f, "done"),
            Answer::Error { code, message } => write!(f, "{code} {}", message.replace('\n', " ")),
            Answer::Broken(message) => write!(f, "broken: {message}"),
            Answer::Rows { columns, rows } => {
                write!(f, "{columns} columns, {} rows", rows.len())?;
                for row in rows.iter().take(12) {
                    let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect();
                    write!(f, " | {}", cells.join(", ").replace('\n', "\\n"))?;
                }
                Ok(())
            }
        }
    }
}
