//! `COPY … FROM STDIN`: the client sends rows, and the server reads them until it says that there are no more.
//!
//! Source: PostgreSQL documentation, "COPY Operations".

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectNamePart};
use nyala_engine::Statement;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::CopyInResponse;

use super::connection::Connection;
use super::errors::{Failure, Stop, sqlstate};
use super::messages::Request;
use crate::rows::{Dialect, Load, RowFormat};

/// Pieces of data that are larger are no data. Clients send kilobytes at a time.
const MAX_PIECE_BYTES: usize = 64 << 20;

impl Connection {
    /// Loads what the client sends, and gives the number of rows.
    pub(super) async fn copy_in(&mut self, statement: &Statement) -> Result<u64, Stop> {
        let Some(copy) = statement.copy_from_client() else {
            return Err(Failure::protocol("a statement takes no rows").into());
        };
        let columns: Vec<String> = copy.columns.iter().map(name).collect();
        let table: Vec<String> =
            copy.table.0.iter().filter_map(ObjectNamePart::as_ident).map(quoted).collect();
        let format = RowFormat::Text(Dialect::of_copy(&copy.options)?);
        let mut load = Load::begin(Arc::clone(&self.session), table.join("."), columns, &format, 0)?;
        let response = CopyInResponse::new(0, 0, Vec::new());
        self.output.put(&PgWireBackendMessage::CopyInResponse(response))?;
        self.output.flush().await?;
        loop {
            match self.input.next(MAX_PIECE_BYTES).await? {
                Request::CopyData(bytes) => load.push(&bytes).await?,
                Request::CopyDone => {
                    self.transaction.change();
                    return Ok(load.finish().await?.rows);
                }
                Request::CopyFail(reason) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Failure::error(sqlstate::QUERY_CANCELED, message).into());
                }
                // A client may send these before it knows that the copy has begun.
                Request::Flush | Request::Sync => {}
                _ => {
                    let message = "unexpected message during COPY from stdin";
                    return Err(Failure::protocol(message).into());
                }
            }
        }
    }
}

fn name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn quoted(ident: &Ident) -> String {
    format!("\"{}\"", name(ident).replace('"', "\"\""))
}
