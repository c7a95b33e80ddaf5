//! Runs the statements that are about the connection itself.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Expr};
use nyala_engine::{Answer, Prepared, Statement};
use nyala_pg::backends::BACKENDS;
use nyala_pg::translation::placeholders::written_types;
use nyala_pg::types::type_named;
use pgwire::api::Type;

use super::arguments::argument_values;
use super::command::{Command, Discarded};
use super::setting_commands::zone_of;
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::{Connection, Reply};
use crate::pgwire::protocol::extended::parameter_types;
use crate::pgwire::protocol::portal::{Bound, Plan, Rows, RowsTag, attended, unknown_statement};

impl Connection {
    /// Runs a command; `asked_by` is the statement it stands in.
    pub async fn command(&mut self, command: &Command, asked_by: &Bound) -> Result<Reply, Stop> {
        let tag = match command {
            Command::Begin { modes, tag } => {
                let warning = self.transaction.begin();
                self.notice(warning)?;
                self.assign(modes).await?;
                tag
            }
            Command::Commit | Command::Rollback => {
                return self.end_transaction(matches!(command, Command::Commit)).await;
            }
            Command::Savepoint(name) => self.transaction.savepoint(name).map(|()| "SAVEPOINT")?,
            Command::Release(name) => self.transaction.release(name).map(|()| "RELEASE")?,
            Command::RollbackTo(name) => self.transaction.rollback_to(name).map(|()| "ROLLBACK")?,
            Command::Set(assignments) => {
                self.assign(assignments).await?;
                "SET"
            }
            Command::Reset(name) => {
                self.reset(name.as_deref()).await?;
                "RESET"
            }
            Command::Show(name) => return self.show(name),
            Command::ShowAll => return self.show_all(),
            Command::Discard(what) => return self.discard(*what).await,
            Command::Deallocate(name) => self.deallocate(name.as_deref())?,
            Command::Close(name) => self.close_cursor(name.as_deref())?,
            Command::Declare { cursor, hold, scroll, query } => {
                self.declare(cursor, (*hold, *scroll), query, asked_by).await?;
                "DECLARE CURSOR"
            }
            Command::Fetch { cursor, step, moves } => {
                return self.fetch(cursor, *step, *moves, asked_by).await;
            }
            Command::Prepare { name, types, statement } => {
                self.prepare_statement(name, types, statement).await?;
                "PREPARE"
            }
            Command::Listen(channel) => {
                self.backend.listen(channel);
                "LISTEN"
            }
            Command::Unlisten(channel) => {
                self.backend.unlisten(channel.as_deref());
                "UNLISTEN"
            }
            Command::Notify { channel, payload } => {
                self.notify(channel.clone(), payload.clone())?;
                "NOTIFY"
            }
            Command::CopyOut(copy) => return Box::pin(self.copy_out(copy)).await,
            Command::Execute { name, arguments } => return self.execute_statement(name, arguments).await,
        };
        Ok(Reply::Done(tag.to_owned()))
    }

    /// Runs a plan of the engine.
    pub async fn execute(
        &mut self,
        prepared: &Prepared,
        tag: RowsTag,
        parameters: Vec<ScalarValue>,
    ) -> Result<Reply, Stop> {
        self.check_writable(prepared)?;
        match attended(&mut self.input, self.session.execute(prepared, parameters)).await? {
            Answer::Rows(rows) => {
                if prepared.writes_rows() {
                    self.transaction.change();
                }
                Ok(Reply::Rows(Box::new(Rows::stream(rows, tag))))
            }
            Answer::Done(done) => {
                self.notice(done.notice.map(Failure::notice))?;
                if done.tag != "SET" && !prepared.statement().ends_work() {
                    self.transaction.change();
                }
                Ok(Reply::Done(match done.rows {
                    Some(rows) if done.tag == "INSERT" => format!("INSERT 0 {rows}"),
                    Some(rows) => format!("{} {rows}", done.tag),
                    None => done.tag,
                }))
            }
        }
    }

    /// Refuses changes in a read-only transaction. Ending a query or a job changes no data.
    pub fn check_writable(&self, prepared: &Prepared) -> Result<(), Failure> {
        let statement = prepared.statement();
        let changes = prepared.changes() || statement.copy_from_client().is_some();
        if !changes
            || statement.ends_work()
            || self.settings.get("transaction_read_only").as_deref() != Some("on")
        {
            return Ok(());
        }
        let message = "cannot change anything in a read-only transaction";
        Err(Failure::error(sqlstate::READ_ONLY_TRANSACTION, message)
            .hint("begin another one with BEGIN READ WRITE, or SET default_transaction_read_only = off"))
    }

    pub fn notice(&mut self, warning: Option<Failure>) -> Result<(), Stop> {
        match warning {
            Some(warning) if warning.is_wanted(self.settings.get("client_min_messages").as_deref()) => {
                self.output.put(&warning.into_message())
            }
            _ => Ok(()),
        }
    }

    async fn end_transaction(&mut self, commit: bool) -> Result<Reply, Stop> {
        let end = self.transaction.end(commit);
        self.notice(end.warning)?;
        self.settle_notifications(end.committed);
        if end.committed {
            self.keep_held();
        } else {
            self.portals.retain(|_, portal| portal.kept);
        }
        while let Some(change) = self.changes.pop() {
            if change.local || !end.committed {
                self.set(&change.name, change.old.as_deref()).await?;
            }
        }
        Ok(Reply::Done(if end.committed { "COMMIT" } else { "ROLLBACK" }.to_owned()))
    }

    async fn discard(&mut self, what: Discarded) -> Result<Reply, Stop> {
        if what == Discarded::Plans {
            return Ok(Reply::Done("DISCARD PLANS".to_owned()));
        }
        if what == Discarded::Sequences {
            return Ok(Reply::Done("DISCARD SEQUENCES".to_owned()));
        }
        if what == Discarded::Temporary {
            self.session.discard_temporary();
            return Ok(Reply::Done("DISCARD TEMP".to_owned()));
        }
        if self.transaction.is_open() {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(Failure::error(sqlstate::ACTIVE_TRANSACTION, message).into());
        }
        self.statements.clear();
        self.portals.clear();
        self.backend.unlisten(None);
        BACKENDS.unlock_all(self.key.process_id, Some(false));
        self.session.discard_temporary();
        self.reset(None).await?;
        Ok(Reply::Done("DISCARD ALL".to_owned()))
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str, Failure> {
        match name {
            None => {
                self.statements.clear();
                Ok("DEALLOCATE ALL")
            }
            Some(name) => {
                self.statements.remove(name).map(|_| "DEALLOCATE").ok_or_else(|| unknown_statement(name))
            }
        }
    }

    async fn prepare_statement(
        &mut self,
        name: &str,
        types: &[SqlType],
        statement: &Statement,
    ) -> Result<(), Stop> {
        if self.statements.contains_key(name) {
            let message = format!("prepared statement `{name}` already exists");
            return Err(Failure::error(sqlstate::DUPLICATE_STATEMENT, message).into());
        }
        let declared: Vec<u32> =
            types.iter().map(|kind| type_named(kind).map_or(0, |kind| kind.oid())).collect();
        if Command::recognise(statement)?.is_some() {
            let message = "PREPARE takes a query, not a command of the session";
            return Err(Failure::error(sqlstate::SYNTAX_ERROR, message).into());
        }
        let stored = Box::pin(self.store(statement.clone(), &declared)).await?;
        Ok(self.keep_statement(name.to_owned(), stored)?)
    }

    async fn execute_statement(&mut self, name: &str, arguments: &[Expr]) -> Result<Reply, Stop> {
        let stored = Arc::clone(self.statements.get(name).ok_or_else(|| unknown_statement(name))?);
        let Plan::Engine(prepared, tag) = &stored.plan else {
            let message = format!("prepared statement `{name}` is not a query");
            return Err(Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, message).into());
        };
        let values = argument_values(&stored.parameter_types, arguments, &|| zone_of(self))?;
        self.execute(prepared, *tag, values).await
    }

    /// Parameters of a command that carries a query.
    pub async fn command_parameters(
        &mut self,
        command: &Command,
        declared: &[u32],
    ) -> Result<Vec<Type>, Stop> {
        let Command::Declare { query, .. } = command else {
            return Ok(Vec::new());
        };
        let prepared = attended(&mut self.input, self.session.prepare(query.clone())).await?;
        Ok(parameter_types(&prepared, declared, &written_types(query)))
    }
}
