//! Makes a cached plan of a query the second time its shape is seen.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use nyala_model::NodeId;
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{Kind, StatementLimits, error_of, parameterise, parse, without_secrets};

use super::plan::logical::logical_plan;
use super::plan::parts::Parts;
use super::plan::reads::reads_live;
use super::plans::{Answers, KeptQuery, Known, PlanBasis, PlanKey, Template};
use super::session::Session;
use crate::session::{Settings, SnapshotContext};

/// A query planned without a template. A template must read the same cuboids and give the same columns.
pub struct Planned {
    pub context: Arc<SnapshotContext>,
    pub settings: Settings,
    pub answers: Answers,
    pub schema: SchemaRef,
    /// The other node that keeps the cuboids in memory: the shape is remembered with it, and not planned here.
    pub node: Option<NodeId>,
}

impl Session {
    /// Records a planned query. The second time its shape is seen, a template is made in the background;
    /// for an unfit shape, the second time its text is seen.
    pub(crate) fn learn_plan(&self, text: &Arc<str>, planned: Planned) {
        let basis = PlanBasis::of(&planned.settings, &planned.context, self.options().dialect);
        let plans = &self.engine.snapshots.plans;
        if let Some(parameterised) = parameterise(text) {
            match plans.find(&parameterised.shape, &basis) {
                Some(Known::Unfit) => {}
                known => return self.learn_text(&parameterised.shape, known, basis, planned),
            }
        }
        let known = plans.find(text, &basis);
        self.learn_text(text, known, basis, planned);
    }

    fn learn_text(&self, text: &str, known: Option<Known>, basis: PlanBasis, planned: Planned) {
        let snapshots = &self.engine.snapshots;
        let key = PlanKey::new(text, basis.clone());
        match known {
            None => snapshots.plans.learn(key, Known::Once),
            // Another node has the cuboids now.
            Some(Known::Kept(query)) if planned.node.as_ref() != Some(&query.node) => {
                snapshots.plans.learn(key, Known::Once);
            }
            Some(Known::Once) => {
                snapshots.plans.learn(key.clone(), Known::Planning);
                let (snapshots, text) = (Arc::clone(snapshots), text.to_owned());
                self.engine.runtime.threads.plan_later(async move {
                    let known = match planned.known(&text, basis, snapshots.limits()).await {
                        Ok(known) => known,
                        Err(error) => {
                            let (text, error) = (without_secrets(&text), error_of(&text, &error));
                            tracing::debug!(%text, error, "a query keeps being planned anew");
                            Known::Unfit
                        }
                    };
                    snapshots.plans.learn(key, known);
                });
            }
            Some(Known::Planning | Known::Ready(_) | Known::Kept(_) | Known::Unfit) => {}
        }
    }
}

impl Planned {
    async fn known(&self, text: &str, basis: PlanBasis, limits: &StatementLimits) -> Result<Known> {
        let mut statements = parse(text, limits)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(QueryError::internal("a shape is no single statement"));
        };
        let Kind::DataFusion(ast) = statement.kind.clone() else {
            return Err(QueryError::internal("a shape is no query"));
        };
        let (context, settings) = (self.context.as_ref(), &self.settings);
        let planned = logical_plan(*ast, context.state(settings)).await?;
        let parts = Arc::new(Parts::of(statement, planned, context, settings)?);
        if let Some(node) = &self.node {
            if parts.described.schema.as_ref() != Some(&self.schema) {
                return Err(QueryError::internal("its values decide its columns"));
            }
            if reads_live(parts.plan.logical())? {
                return Err(QueryError::internal("its values decide whether it reads live rows"));
            }
            return Ok(Known::Kept(Arc::new(KeptQuery { node: node.clone(), parts, basis })));
        }
        let template = Template::plan(parts, (context, settings, basis), &self.answers, &self.schema).await?;
        Ok(Known::Ready(Arc::new(template)))
    }
}
