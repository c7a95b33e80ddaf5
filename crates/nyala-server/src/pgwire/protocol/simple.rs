//! The simple protocol: a text of statements, all rows of each, in text.

use std::sync::Arc;

use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{ClientText, Connection};
use super::portal::{Bound, Plan, Portal, Progress, Stored};
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::values::encode::RowWriter;

impl Connection {
    /// Runs every statement of `sql`; the first that fails ends the rest.
    pub async fn simple_query(&mut self, sql: &str) -> Result<(), Stop> {
        // The unnamed statement and portal do not survive a simple query.
        self.statements.remove("");
        self.portals.remove("");
        let statements = match self.read(sql)? {
            ClientText::Ready(prepared) => {
                self.transaction.admit(false)?;
                return self.run_plan(Plan::query(prepared)).await;
            }
            ClientText::Statements(statements) => statements,
        };
        if statements.is_empty() {
            return self.output.put(&PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()));
        }
        for statement in statements {
            // Earlier statements may have changed the session's values.
            let statement = statement.for_client(self);
            let plan = Box::pin(self.plan(statement)).await?;
            self.run_plan(plan).await?;
        }
        Ok(())
    }

    async fn run_plan(&mut self, plan: Plan) -> Result<(), Stop> {
        refuse_parameters(&plan)?;
        let stored = Arc::new(Stored::new(plan, Vec::new()));
        let bound = Bound { stored, parameters: Vec::new(), formats: Vec::new(), described_on_run: true };
        let mut portal = Portal::new(bound);
        self.open(&mut portal).await?;
        if let Progress::Running(rows) = &mut portal.progress {
            let plan = &portal.bound.stored.plan;
            let writer = RowWriter::of(plan.prepared(), &rows.schema, &[], self.settings.format_options())?;
            self.output.buffer().extend_from_slice(writer.description());
            rows.writer = Some(writer);
            self.answer(&mut portal, None).await?;
        }
        Ok(())
    }
}

/// Refuses parameters, because the simple protocol has no values for them.
fn refuse_parameters(plan: &Plan) -> Result<(), Failure> {
    match plan {
        Plan::Engine(prepared, _) if !prepared.parameter_types().is_empty() => {
            Err(Failure::error(sqlstate::UNDEFINED_PARAMETER, "there is no parameter $1")
                .hint("use the extended protocol, or PREPARE and EXECUTE"))
        }
        _ => Ok(()),
    }
}
