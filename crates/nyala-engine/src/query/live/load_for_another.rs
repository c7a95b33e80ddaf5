//! Loads that another node's clients begin into a live table of this node.

use arrow::datatypes::{DataType, Schema};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use nyala_runtime::Scope;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use std::sync::Arc;

use super::ingest::{Asked, Ingest};
use super::loading::Loading;
use crate::query::answer::Ingested;
use crate::query::engine::Engine;
use crate::query::nodes::{ForwardedLoad, LoadPart, not_confirmed};
use crate::query::resources::task::Task;

impl Engine {
    /// Begins a load for another node: the outcome of an earlier load of the same label, if there was one, or else the future
    /// that takes the rows and gives the outcome. Dropping the future gives the load up.
    ///
    /// # Errors
    /// The user may not write the table, or the table is not of this node.
    pub async fn load_for_another(
        self: &Arc<Self>,
        load: ForwardedLoad,
        parts: BoxStream<'static, Result<LoadPart>>,
    ) -> Result<(Option<Ingested>, BoxFuture<'static, Result<Ingested>>)> {
        let session = self.session_of(&load.statement).await?;
        let mut loading = session.begin_load(load.statement.sql.clone())?;
        let begun = loading.within(async {
            let asked = Asked { label: load.label.as_deref(), at_once: load.at_once, may_be_sent: false };
            let mut ingest = Ingest::begin(&session, &load.table, &load.columns, asked)?;
            let types = |schema: &Schema| -> Vec<DataType> {
                schema.fields().iter().map(|field| field.data_type().clone()).collect()
            };
            if types(ingest.schema()) != types(&load.schema) {
                let message = format!("table `{}` was altered while the load began", load.table);
                return Err(QueryError::new(ErrorKind::Changed, message).hint("send the rows again"));
            }
            let known = ingest.known().await?;
            Ok((ingest, known))
        });
        let (ingest, known) = begun.await?;
        if let Some(known) = known {
            loading.finish();
            return Ok((Some(known), std::future::ready(Ok(known)).boxed()));
        }
        // Rows are decoded and gathered on threads that serve no connections.
        let taken =
            Task::spawn(&self.runtime.threads, Scope::new(Arc::default()), take(loading, ingest, parts));
        let own = self.node.clone();
        // Rows may be written by then.
        let outcome = taken.join_or(move || not_confirmed(&own, "it stopped"));
        Ok((None, outcome.boxed()))
    }
}

async fn take(
    mut loading: Loading,
    mut ingest: Ingest,
    mut parts: BoxStream<'static, Result<LoadPart>>,
) -> Result<Ingested> {
    loop {
        match loading.client(parts.next()).await? {
            Some(Ok(LoadPart::Rows(batch))) => {
                loading.add_rows(batch.num_rows());
                loading.within(ingest.push(batch)).await?;
            }
            Some(Ok(LoadPart::End { rejected })) => {
                let deadline = loading.deadline();
                let done = loading.within(ingest.finish(rejected, &deadline)).await?;
                loading.finish();
                return Ok(done);
            }
            Some(Err(error)) => {
                loading.fail(&error);
                return Err(error);
            }
            None => {
                let message = "the client ended its load before it was whole";
                return Err(QueryError::new(ErrorKind::Cancelled, message));
            }
        }
    }
}
