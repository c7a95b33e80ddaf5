//! `COPY … FROM STDIN`: the client sends rows, and the server reads them until it says that there are no more.
//!
//! Source: PostgreSQL documentation, "COPY Operations".

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CopyOption, Ident, ObjectNamePart};
use nyala_engine::Statement;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::CopyInResponse;

use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::Connection;
use crate::pgwire::protocol::messages::Request;
use crate::pgwire::values::binary_rows::BinaryRows;
use crate::rows::{Decode, Dialect, Load, LoadRequest, RowFormat};

/// Most bytes of one message of rows. Clients send kilobytes at a time.
const MAX_PIECE_BYTES: usize = 64 << 20;

impl Connection {
    /// Loads the rows that the client sends, and gives their number.
    pub async fn copy_in(&mut self, statement: &Statement) -> Result<u64, Stop> {
        let Some(copy) = statement.copy_from_client() else {
            return Err(Failure::protocol("a statement takes no rows").into());
        };
        let columns: Vec<String> = copy.columns.iter().map(name).collect();
        let table: Vec<String> =
            copy.table.0.iter().filter_map(ObjectNamePart::as_ident).map(quoted).collect();
        let binary = is_binary(&copy.options)?;
        let decoder: Box<dyn Decode> = match binary {
            true => Box::<BinaryRows>::default(),
            false => RowFormat::Text(Dialect::of_copy(&copy.options)?).decoder(),
        };
        let request = LoadRequest {
            text: statement.to_string(),
            table: table.join("."),
            columns,
            decoder,
            max_rejects: 0,
            label: copy.label.clone(),
            at_once: false,
        };
        let mut load = Load::begin(Arc::clone(&self.session), request).await?;
        let (format, width) = (i8::from(binary), i16::try_from(load.width()).unwrap_or(i16::MAX));
        let formats = vec![i16::from(format); usize::try_from(width).unwrap_or_default()];
        let response = CopyInResponse::new(format, width, formats);
        self.output.put(&PgWireBackendMessage::CopyInResponse(response))?;
        self.output.flush().await?;
        loop {
            match load.client(self.input.next(MAX_PIECE_BYTES)).await?? {
                Request::CopyData(bytes) => load.push(&bytes).await?,
                Request::CopyDone => {
                    let done = load.finish().await?.done;
                    self.transaction.change();
                    self.notice(done.notice().map(Failure::notice))?;
                    return Ok(done.rows);
                }
                Request::CopyFail(reason) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Failure::error(sqlstate::QUERY_CANCELED, message).into());
                }
                // A client may send these messages before it knows that the copy has begun.
                Request::Flush | Request::Sync => {}
                _ => {
                    let message = "unexpected message during COPY from stdin";
                    return Err(Failure::protocol(message).into());
                }
            }
        }
    }
}

/// Whether rows come in the binary format, which takes no other options.
pub fn is_binary(options: &[CopyOption]) -> Result<bool, Failure> {
    let binary = options.iter().any(
        |option| matches!(option, CopyOption::Format(name) if name.value.eq_ignore_ascii_case("binary")),
    );
    match options.iter().find(|option| !matches!(option, CopyOption::Format(_) | CopyOption::Freeze(_))) {
        Some(other) if binary => {
            let message = format!("COPY option `{other}` has no meaning in the binary format");
            Err(Failure::error(sqlstate::SYNTAX_ERROR, message))
        }
        _ => Ok(binary),
    }
}

/// Unquoted names compare in lower case.
pub fn name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

fn quoted(ident: &Ident) -> String {
    format!("\"{}\"", name(ident).replace('"', "\"\""))
}
