//! `COPY … TO STDOUT`: rows of a query as lines of text or CSV, or as the protocol's binary rows.
//!
//! Source: PostgreSQL documentation, "COPY Operations", and "File Formats" of COPY.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};
use datafusion::sql::sqlparser::ast::{CopyOption, CopySource, CopyTarget, Ident, Statement as Ast};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use nyala_engine::Statement;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyDone, CopyOutResponse};

use super::copy::{is_binary, name};
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::{Connection, Reply};
use crate::pgwire::protocol::portal::{Plan, Rows};
use crate::pgwire::values::encode::{RowWriter, WriteRows};
use crate::rows::Dialect;

/// Signature, flags and the length of the extension, 0.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const BINARY_TRAILER: &[u8] = &[0xff, 0xff];

/// A `COPY … TO STDOUT`, as its query and its format.
#[derive(Debug, Clone)]
pub struct CopyOut {
    query: Statement,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Binary,
    Lines { dialect: Dialect, force_quote: Vec<String> },
}

impl CopyOut {
    /// The parts of a `COPY … TO STDOUT`; none for other statements.
    pub fn of(ast: &Ast) -> Option<Result<Self, Failure>> {
        match ast {
            Ast::Copy { source, to: true, target: CopyTarget::Stdout, options, .. } => {
                Some(Self::parts(source, options))
            }
            _ => None,
        }
    }

    fn parts(source: &CopySource, options: &[CopyOption]) -> Result<Self, Failure> {
        let query = match source {
            CopySource::Query(query) => Ast::Query(query.clone()),
            CopySource::Table { table_name, columns } => {
                let names: Vec<String> = columns.iter().map(Ident::to_string).collect();
                let names = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
                parsed(&format!("SELECT {names} FROM {table_name}"))?
            }
        };
        let mut force_quote = Vec::new();
        let mut others = Vec::new();
        for option in options {
            match option {
                CopyOption::ForceQuote(columns) => {
                    force_quote.extend(columns.iter().map(name));
                }
                other => others.push(other.clone()),
            }
        }
        let force_quoted = !force_quote.is_empty();
        let form = match is_binary(&others)? {
            true => Form::Binary,
            false => Form::Lines { dialect: Dialect::of_copy(&others)?, force_quote },
        };
        if force_quoted && !matches!(&form, Form::Lines { dialect, .. } if dialect.has_quotes()) {
            let message = "COPY option FORCE_QUOTE needs FORMAT csv";
            return Err(Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Self { query: Statement::from_ast(query), form })
    }
}

fn parsed(sql: &str) -> Result<Ast, Failure> {
    let parsed =
        Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_statement());
    parsed.map_err(|error| Failure::error(sqlstate::SYNTAX_ERROR, error.to_string()))
}

impl Connection {
    /// Sends all rows of a query.
    pub async fn copy_out(&mut self, copy: &CopyOut) -> Result<Reply, Stop> {
        let plan = self.plan(copy.query.clone()).await?;
        let Plan::Engine(prepared, tag) = plan else {
            return Err(Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, "COPY takes a query").into());
        };
        let Reply::Rows(mut rows) = self.execute(&prepared, tag, Vec::new()).await? else {
            return Err(Failure::error(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "COPY takes a query that gives rows",
            )
            .into());
        };
        let mut writer = self.copy_writer(&copy.form, &rows)?;
        let format = i8::from(matches!(copy.form, Form::Binary));
        let width = i16::try_from(rows.schema.fields().len()).unwrap_or(i16::MAX);
        let formats = vec![i16::from(format); usize::try_from(width).unwrap_or_default()];
        self.output
            .put(&PgWireBackendMessage::CopyOutResponse(CopyOutResponse::new(format, width, formats)))?;
        writer.begin(&rows.schema, self.output.buffer());
        let (sent, _) = rows.send(&mut writer, None, &mut self.input, &mut self.output).await?;
        writer.end(self.output.buffer());
        self.output.put(&PgWireBackendMessage::CopyDone(CopyDone::new()))?;
        Ok(Reply::Done(format!("COPY {sent}")))
    }

    fn copy_writer(&self, form: &Form, rows: &Rows) -> Result<CopyWriter, Failure> {
        let formats: &[i16] = if matches!(form, Form::Binary) { &[1] } else { &[] };
        let rows_of_protocol = RowWriter::new(&rows.schema, formats, self.settings.format_options())?;
        let form = match form {
            Form::Binary => Lines::Binary,
            Form::Lines { dialect, force_quote } => {
                let unknown = force_quote.iter().find(|name| rows.schema.field_with_name(name).is_err());
                if let Some(name) = unknown {
                    let message = format!("FORCE_QUOTE names column `{name}`, which COPY does not have");
                    return Err(Failure::error("42703", message));
                }
                let quoted = rows.schema.fields().iter().map(|field| force_quote.contains(field.name()));
                Lines::Text { dialect: dialect.clone(), quoted: quoted.collect() }
            }
        };
        let begun = !matches!(form, Lines::Binary);
        Ok(CopyWriter { rows: rows_of_protocol, lines: form, begun, batch: BytesMut::new() })
    }
}

/// Writes rows as CopyData messages, each of one row.
struct CopyWriter {
    rows: RowWriter,
    lines: Lines,
    /// Whether the binary header is sent: PostgreSQL puts it before the first row, in the same message, and clients count
    /// on messages that hold a whole row.
    begun: bool,
    /// A batch as rows of the protocol.
    batch: BytesMut,
}

enum Lines {
    Binary,
    /// Text or CSV. `quoted` tells for each column whether its values are always in quotes.
    Text {
        dialect: Dialect,
        quoted: Vec<bool>,
    },
}

impl WriteRows for CopyWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut BytesMut) -> Result<(), Failure> {
        self.batch.clear();
        let written = self.rows.write(batch, &mut self.batch);
        let mut messages = &self.batch[..];
        while let Some((row, rest)) = take_row(messages) {
            let start = begin_data(out);
            match &self.lines {
                Lines::Binary => {
                    if !std::mem::replace(&mut self.begun, true) {
                        out.extend_from_slice(BINARY_HEADER);
                    }
                    out.extend_from_slice(row);
                }
                Lines::Text { dialect, quoted } => put_line(dialect, quoted, cells(row), out),
            }
            end_data(out, start)?;
            messages = rest;
        }
        written
    }
}

impl CopyWriter {
    fn begin(&self, schema: &Schema, out: &mut BytesMut) {
        match &self.lines {
            Lines::Text { dialect, .. } if dialect.has_header() => {
                let mut line = BytesMut::new();
                let names = schema.fields().iter().map(|field| Some(field.name().as_bytes()));
                put_line(dialect, &[], names, &mut line);
                put_data(out, &line);
            }
            Lines::Binary | Lines::Text { .. } => {}
        }
    }

    fn end(&self, out: &mut BytesMut) {
        if matches!(self.lines, Lines::Binary) {
            let header = if self.begun { &[] } else { BINARY_HEADER };
            put_data(out, &[header, BINARY_TRAILER].concat());
        }
    }
}

/// The body of the first DataRow message, and the messages behind it.
fn take_row(messages: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = messages.split_first()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let (message, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((message.get(4..)?, rest))
}

/// The values of a row; none is NULL.
fn cells(row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = row.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        let (cell, after) = after.split_at_checked(usize::try_from(length).unwrap_or_default())?;
        rest = after;
        Some((length >= 0).then_some(cell))
    })
}

fn put_line<'a>(
    dialect: &Dialect,
    quoted: &[bool],
    cells: impl Iterator<Item = Option<&'a [u8]>>,
    out: &mut BytesMut,
) {
    let start = out.len();
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.put_u8(dialect.delimiter());
        }
        dialect.write(cell, quoted.get(at).copied().unwrap_or_default(), out);
    }
    // A line of `\.` alone would end the data for its reader.
    if out.get(start..) == Some(b"\\.".as_slice()) {
        out.truncate(start);
        dialect.write(Some(b"\\."), true, out);
    }
    out.put_u8(b'\n');
}

fn put_data(out: &mut BytesMut, data: &[u8]) {
    let length = u32::try_from(data.len() + 4).unwrap_or(u32::MAX);
    out.put_u8(b'd');
    out.put_u32(length);
    out.extend_from_slice(data);
}

/// Begins a CopyData message, and gives the place of its length, which is not known yet.
fn begin_data(out: &mut BytesMut) -> usize {
    out.extend_from_slice(&[b'd', 0, 0, 0, 0]);
    out.len() - 4
}

fn end_data(out: &mut BytesMut, start: usize) -> Result<(), Failure> {
    match (i32::try_from(out.len() - start), out.get_mut(start..start + 4)) {
        (Ok(length), Some(place)) => {
            place.copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start - 1);
            Err(Failure::error(
                "54000",
                "a line is longer than the 2 GiB that a message of the protocol can hold",
            ))
        }
    }
}
