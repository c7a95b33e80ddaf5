//! The extended protocol: parse, bind, describe, execute, close.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use nyala_engine::{Prepared, Statement};
use nyala_pg::translation::placeholders::{
    declare_parameters, is_only_compared, types_of_calls, written_types,
};
use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};

use super::connection::{ClientText, Connection};
use super::messages::{Bind, Request, Target};
use super::portal::{Bound, Plan, Portal, Progress, Stored, attended, unknown_portal, unknown_statement};
use crate::pgwire::commands::command::Command;
use crate::pgwire::commands::setting_commands::zone_of;
use crate::pgwire::commands::settings::Settings;
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::values::encode::RowWriter;
use crate::pgwire::values::parameters;

/// Prepared statements and portals that one connection may hold; each costs memory.
const MAX_HELD: usize = 10_000;

impl Connection {
    /// Handles one message of the extended protocol.
    pub async fn extended(&mut self, request: Request) -> Result<(), Stop> {
        match request {
            Request::Parse { name, sql, types } => {
                self.parse_message(name, &sql, &types).await.map_err(|stop| stop.within(&sql))
            }
            Request::Bind(bind) => self.bind(bind),
            Request::Describe { target: Target::Statement, name } => self.describe_statement(&name),
            Request::Describe { target: Target::Portal, name } => Box::pin(self.describe_portal(&name)).await,
            Request::Execute { portal, max_rows } => self.execute_portal(&portal, max_rows).await,
            Request::Close { target, name } => self.close(target, &name),
            _ => Ok(()),
        }
    }

    async fn parse_message(&mut self, name: String, sql: &str, types: &[u32]) -> Result<(), Stop> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement `{name}` already exists");
            return Err(Failure::error(sqlstate::DUPLICATE_STATEMENT, message).into());
        }
        // The old unnamed statement is gone even if the new one does not parse.
        self.statements.remove("");
        let stored = match self.read(sql)? {
            ClientText::Ready(prepared) => {
                self.transaction.admit(false)?;
                Box::pin(self.stored(prepared, types)).await?
            }
            ClientText::Statements(mut statements) => match (statements.pop(), statements.is_empty()) {
                (None, _) => Stored::new(Plan::Empty, Vec::new()),
                (Some(statement), true) => {
                    let statement = statement.for_client(self);
                    Box::pin(self.store(statement, types)).await?
                }
                (Some(_), false) => {
                    let message = "cannot insert multiple commands into a prepared statement";
                    return Err(Failure::error(sqlstate::SYNTAX_ERROR, message).into());
                }
            },
        };
        self.keep_statement(name, stored)?;
        self.output.put(&PgWireBackendMessage::ParseComplete(ParseComplete::new()))
    }

    /// Plans a statement with the parameter types its client declared (0: none).
    pub async fn store(&mut self, statement: Statement, declared: &[u32]) -> Result<Stored, Stop> {
        let plan = match self.plan(statement.clone()).await {
            // The declared types may be needed to plan it at all, as in `sum(CASE … THEN $1 END)`.
            Err(Stop::Failure(failure)) => match with_all_declared(&statement, declared) {
                Some(statement) => self.plan(statement).await?,
                None => return Err(Stop::Failure(failure)),
            },
            plan => plan?,
        };
        let plan = match plan {
            Plan::Engine(prepared, tag) => {
                Plan::Engine(Box::new(self.with_declared(*prepared, &statement, declared).await?), tag)
            }
            plan => plan,
        };
        let parameter_types = match &plan {
            // Casts that were added to the text give types, too.
            Plan::Engine(prepared, _) => {
                parameter_types(prepared, declared, &written_types(prepared.statement()))
            }
            Plan::Command(command) => self.command_parameters(command, declared).await?,
            Plan::Empty => Vec::new(),
        };
        Ok(Stored::new(plan, parameter_types))
    }

    /// Stores a query that the engine has a cached plan for.
    async fn stored(&mut self, prepared: Prepared, declared: &[u32]) -> Result<Stored, Stop> {
        if prepared.parameter_types().is_empty() {
            return Ok(Stored::new(Plan::query(prepared), Vec::new()));
        }
        let statement = prepared.statement().clone();
        let prepared = self.with_declared(prepared, &statement, declared).await?;
        let parameter_types = parameter_types(&prepared, declared, &written_types(prepared.statement()));
        Ok(Stored::new(Plan::query(prepared), parameter_types))
    }

    /// Plans again with the client's types of parameters where the engine cannot infer a type.
    async fn with_declared(
        &mut self,
        prepared: Prepared,
        statement: &Statement,
        declared: &[u32],
    ) -> Result<Prepared, Stop> {
        let known = prepared.parameter_types();
        let is_open = |i: usize| {
            let is_declared = declared.get(i).is_some_and(|oid| *oid != 0);
            !is_declared && matches!(known.get(i), Some(None | Some(DataType::Null)))
        };
        let wanted = match (0..known.len()).any(is_open) {
            true => types_of_calls(statement),
            false => Vec::new(),
        };
        let declared = (0..known.len()).map(|i| {
            if is_open(i) {
                return wanted.get(i).cloned().flatten();
            }
            let (inferred, oid) = (known.get(i)?, declared.get(i)?);
            let kind = Type::from_oid(*oid).filter(|kind| decides(kind, inferred.as_ref()))?;
            // Comparisons cast the value by themselves. Without a cast the statement keeps its text, and its cached plan.
            let is_known = !matches!(inferred, None | Some(DataType::Null));
            (!(is_known && is_only_compared(statement, i + 1))).then_some(kind)
        });
        let open: Vec<Option<Type>> = declared.collect();
        let Some(statement) = declare_parameters(statement, &open) else {
            return Ok(prepared);
        };
        match attended(&mut self.input, self.session.prepare(statement)).await {
            Ok(prepared) => Ok(prepared),
            Err(Stop::Gone) => Err(Stop::Gone),
            // A cast may be out of place; the plan without it is still good.
            Err(Stop::Failure(_)) => Ok(prepared),
        }
    }

    pub fn keep_statement(&mut self, name: String, stored: Stored) -> Result<(), Failure> {
        if self.statements.len() >= MAX_HELD {
            let message = format!("connection holds {MAX_HELD} prepared statements");
            return Err(
                Failure::error(sqlstate::LIMIT_EXCEEDED, message).hint("close some, or DEALLOCATE ALL")
            );
        }
        self.statements.insert(name, Arc::new(stored));
        Ok(())
    }

    pub fn keep_portal(&mut self, name: String, portal: Portal) -> Result<(), Failure> {
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(Failure::error(
                sqlstate::DUPLICATE_CURSOR,
                format!("cursor `{name}` already exists"),
            ));
        }
        if self.portals.len() >= MAX_HELD {
            let message = format!("connection holds {MAX_HELD} portals");
            return Err(Failure::error(sqlstate::LIMIT_EXCEEDED, message).hint("close some"));
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Stop> {
        let stored =
            self.statements.get(&bind.statement).ok_or_else(|| unknown_statement(&bind.statement))?;
        let stored = Arc::clone(stored);
        let ends_block = matches!(&stored.plan, Plan::Command(command) if command.ends_block());
        self.transaction.admit(ends_block || matches!(stored.plan, Plan::Empty))?;
        let (formats, given) = (&bind.parameter_formats, &bind.parameters);
        let values = parameters::decode_all(&stored.parameter_types, formats, given, &|| zone_of(self))?;
        let bound = Bound::new(stored, values, bind.result_formats);
        self.keep_portal(bind.portal, Portal::new(bound))?;
        self.output.put(&PgWireBackendMessage::BindComplete(BindComplete::new()))
    }

    fn describe_statement(&mut self, name: &str) -> Result<(), Stop> {
        let stored = Arc::clone(self.statements.get(name).ok_or_else(|| unknown_statement(name))?);
        let types = stored.parameter_types.iter().map(Type::oid).collect();
        self.output.put(&PgWireBackendMessage::ParameterDescription(ParameterDescription::new(types)))?;
        let schema = self.schema_of(&stored.plan)?;
        self.describe(&stored.plan, schema, &[])
    }

    /// Describes a portal. A query with parameters is started for that: only then are its types certain. A statement that writes is
    /// started by Execute alone.
    async fn describe_portal(&mut self, name: &str) -> Result<(), Stop> {
        let mut portal = self.portals.remove(name).ok_or_else(|| unknown_portal(name))?;
        let is_query = matches!(
            &portal.bound.stored.plan,
            Plan::Engine(prepared, _) if prepared.schema().is_some() && !prepared.writes_rows()
        );
        if is_query && !portal.bound.parameters.is_empty() && matches!(portal.progress, Progress::New) {
            self.open(&mut portal).await?;
        }
        let schema = match &portal.progress {
            Progress::Running(rows) => Some(Arc::clone(&rows.schema)),
            Progress::Stored(rows) => Some(Arc::clone(&rows.schema)),
            _ => self.schema_of(&portal.bound.stored.plan)?,
        };
        let bound = Arc::clone(&portal.bound);
        self.portals.insert(name.to_owned(), portal);
        self.describe(&bound.stored.plan, schema, &bound.formats)
    }

    fn describe(&mut self, plan: &Plan, schema: Option<SchemaRef>, formats: &[i16]) -> Result<(), Stop> {
        let Some(schema) = schema else {
            return self.output.put(&PgWireBackendMessage::NoData(NoData::new()));
        };
        let writer = RowWriter::of(plan.prepared(), &schema, formats, self.settings.format_options())?;
        self.output.buffer().extend_from_slice(writer.description());
        Ok(())
    }

    /// The columns a plan will give; none if it gives no rows.
    fn schema_of(&self, plan: &Plan) -> Result<Option<SchemaRef>, Failure> {
        match plan {
            Plan::Empty => Ok(None),
            Plan::Engine(prepared, _) => Ok(prepared.schema()),
            Plan::Command(command) => match command.as_ref() {
                Command::Show(name) => Ok(Some(text_columns(&[Settings::spelling(name)]))),
                Command::ShowAll => Ok(Some(text_columns(&["name", "setting", "description"]))),
                Command::Fetch { moves: true, .. } => Ok(None),
                Command::Fetch { cursor, .. } => match self.portals.get(cursor) {
                    Some(Portal { progress: Progress::Running(rows), .. }) => {
                        Ok(Some(Arc::clone(&rows.schema)))
                    }
                    Some(Portal { progress: Progress::Stored(rows), .. }) => {
                        Ok(Some(Arc::clone(&rows.schema)))
                    }
                    Some(portal) => match &portal.bound.stored.plan {
                        Plan::Engine(prepared, _) => Ok(prepared.schema()),
                        _ => Ok(None),
                    },
                    None => Err(unknown_portal(cursor)),
                },
                Command::Execute { name, .. } => match self.statements.get(name) {
                    Some(stored) => match &stored.plan {
                        Plan::Engine(prepared, _) => Ok(prepared.schema()),
                        _ => Ok(None),
                    },
                    None => Err(unknown_statement(name)),
                },
                _ => Ok(None),
            },
        }
    }

    async fn execute_portal(&mut self, name: &str, max_rows: usize) -> Result<(), Stop> {
        let mut portal = self.portals.remove(name).ok_or_else(|| unknown_portal(name))?;
        if matches!(portal.progress, Progress::Finished) {
            self.portals.insert(name.to_owned(), portal);
            return self.complete("SELECT 0".to_owned());
        }
        self.answer(&mut portal, (max_rows > 0).then_some(max_rows)).await?;
        // Statements such as COMMIT have just ended all portals; their own portal must not be kept either.
        if self.transaction.is_open() || matches!(portal.progress, Progress::Running(_)) || name.is_empty() {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }

    pub fn suspended(&mut self) -> Result<(), Stop> {
        self.output.put(&PgWireBackendMessage::PortalSuspended(PortalSuspended::new()))
    }

    fn close(&mut self, target: Target, name: &str) -> Result<(), Stop> {
        match target {
            Target::Statement => drop(self.statements.remove(name)),
            Target::Portal => drop(self.portals.remove(name)),
        }
        self.output.put(&PgWireBackendMessage::CloseComplete(CloseComplete::new()))
    }
}

/// Whether the client knows a parameter's type better than the plan, which infers it from the other operand: a
/// number with a fraction may be compared with a whole one, and a time with a day.
fn decides(kind: &Type, inferred: Option<&DataType>) -> bool {
    match inferred {
        None | Some(DataType::Null) => true,
        Some(inferred) if inferred.is_integer() => matches!(*kind, Type::FLOAT4 | Type::FLOAT8),
        Some(DataType::Date32 | DataType::Date64) => matches!(*kind, Type::TIMESTAMP | Type::TIMESTAMPTZ),
        Some(_) => false,
    }
}

/// The statement with casts of its parameters to all types that the client declared, or that functions want; none without any.
fn with_all_declared(statement: &Statement, declared: &[u32]) -> Option<Statement> {
    let wanted = types_of_calls(statement);
    let kinds = (0..declared.len().max(wanted.len())).map(|i| {
        let declared = declared.get(i).and_then(|oid| Type::from_oid(*oid));
        let declared = declared.filter(|kind| *kind != Type::UNKNOWN);
        declared.or_else(|| wanted.get(i).cloned().flatten())
    });
    declare_parameters(statement, &kinds.collect::<Vec<_>>())
}

/// The types that a client is told for the parameters of a plan: those it declared, or the engine inferred,
/// or a cast in the text gives.
pub fn parameter_types(prepared: &Prepared, declared: &[u32], written: &[u32]) -> Vec<Type> {
    let oid = |oids: &[u32], i: usize| oids.get(i).copied().unwrap_or(0);
    let types = prepared.parameter_types().iter().enumerate();
    types
        .map(|(i, inferred)| {
            let known = oid(declared, i) != 0 || !matches!(inferred, None | Some(DataType::Null));
            let oid = if known { oid(declared, i) } else { oid(written, i) };
            parameters::resolve(oid, inferred.as_ref())
        })
        .collect()
}

/// A schema of text columns.
pub fn text_columns(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    Arc::new(Schema::new(fields))
}
