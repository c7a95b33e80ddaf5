//! Finds the cached plan of a text, and makes one the second time.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{Kind, error_of, lift, parse, without_secrets};

use super::cache::{Known, PlanBasis, PlanKey};
use super::template::{Answers, Template};
use crate::query::activity::Running;
use crate::query::answer::Answer;
use crate::query::authorize;
use crate::query::engine::Engine;
use crate::query::parameters::exact_values;
use crate::query::prepared::{Parts, Prepared};
use crate::query::run::{Deadline, Start};
use crate::query::session::Session;
use crate::session::{Settings, SnapshotContext};

/// Cuboids and columns of a query planned without a template.
pub(in crate::query) struct Made {
    pub(in crate::query) answers: Answers,
    pub(in crate::query) schema: arrow::datatypes::SchemaRef,
}

impl Session {
    /// The statement of a text with a cached plan, without parsing it. None for all other texts: parse and
    /// prepare them.
    pub fn recall(&self, sql: &str) -> Option<Prepared> {
        let (context, settings) = (self.engine.context(), self.settings());
        self.engine.limits().check_bytes(sql).ok()?;
        let basis = PlanBasis::of(&settings, &context);
        let find = |text: &str| self.engine.plans.find(text, &basis);
        if let Some(lifted) = lift(sql) {
            match find(&lifted.shape) {
                Some(Known::Ready(template)) => {
                    self.may_run(&template).ok()?;
                    let values = template.values_of(lifted.values)?;
                    return Some(Prepared::of_template(&template).taken_from(sql, values));
                }
                Some(Known::Unfit) => {}
                _ => return None,
            }
        }
        match find(sql) {
            Some(Known::Ready(template)) => {
                self.may_run(&template).ok()?;
                Some(Prepared::of_template(&template))
            }
            _ => None,
        }
    }

    /// Checks the grants of this session: another session may have made the template.
    fn may_run(&self, template: &Template) -> Result<()> {
        authorize::reading(&self.engine, &self.options().identity, template.reads())
    }

    /// Runs a statement from its template. None if it has no usable one now.
    pub(in crate::query) fn run_ready(
        &self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
        settings: &Settings,
        deadline: &Deadline,
        running: &mut Option<Running>,
    ) -> Result<Option<Answer>> {
        let Some(template) = self.template(prepared, settings) else { return Ok(None) };
        self.may_run(&template)?;
        let begun = std::time::Instant::now();
        let plan = match prepared.taken() {
            Some(values) => template.bind(values)?,
            None => match exact_values(prepared.parameter_types(), parameters)? {
                Some(values) => template.bind(&values)?,
                None => None,
            },
        };
        // Without a plan the statement is planned as usual.
        let Some(plan) = plan else { return Ok(None) };
        let Some(running) = running.take() else { return Err(QueryError::internal("a statement ran twice")) };
        self.engine.plans.count(true);
        self.engine.count_hits(template.asked().len());
        running.entry().follows(&plan, true, template.answered_from());
        let start = Start {
            plan,
            task: Arc::clone(template.task()),
            deadline: deadline.clone(),
            recording: self.engine.history.begin(Arc::clone(template.asked()), begun),
            slot: None,
            source: settings.nyala().result_cache.then(|| template.source()).flatten(),
        };
        start.here(running).map(Some)
    }

    fn template(&self, prepared: &Prepared, settings: &Settings) -> Option<Arc<Template>> {
        let context = self.engine.context();
        let basis = PlanBasis::of(settings, &context);
        if let Some(template) = prepared.template().filter(|template| *template.basis() == basis) {
            return Some(template);
        }
        match self.engine.plans.find(prepared.parts().statement.text()?, &basis) {
            Some(Known::Ready(template)) => Some(template),
            _ => None,
        }
    }
}

impl Engine {
    /// Records a planned query. The second time its shape is seen, a template is made in the background;
    /// for an unfit shape, the second time its text is seen.
    pub(in crate::query) fn learn_plan(
        self: &Arc<Self>,
        text: &Arc<str>,
        settings: &Settings,
        context: &Arc<SnapshotContext>,
        made: Made,
    ) {
        let basis = PlanBasis::of(settings, context);
        if let Some(lifted) = lift(text) {
            match self.plans.find(&lifted.shape, &basis) {
                Some(Known::Unfit) => {}
                known => return self.learn_text(&lifted.shape, known, settings, context, made),
            }
        }
        let known = self.plans.find(text, &basis);
        self.learn_text(text, known, settings, context, made);
    }

    fn learn_text(
        self: &Arc<Self>,
        text: &str,
        known: Option<Known>,
        settings: &Settings,
        context: &Arc<SnapshotContext>,
        made: Made,
    ) {
        let key = PlanKey::new(text, PlanBasis::of(settings, context));
        match known {
            None => self.plans.learn(key, Known::Once),
            Some(Known::Once) => {
                self.plans.learn(key.clone(), Known::Planning);
                let (engine, context) = (Arc::clone(self), Arc::clone(context));
                let (text, settings) = (text.to_owned(), settings.clone());
                self.threads.plan_later(async move {
                    let known = match engine.template_of(&text, &settings, &context, &made).await {
                        Ok(template) => Known::Ready(Arc::new(template)),
                        Err(error) => {
                            let (text, error) = (without_secrets(&text), error_of(&text, &error));
                            tracing::debug!(%text, error, "a query keeps being planned anew");
                            Known::Unfit
                        }
                    };
                    engine.plans.learn(key, known);
                });
            }
            Some(Known::Planning | Known::Ready(_) | Known::Unfit) => {}
        }
    }

    async fn template_of(
        &self,
        text: &str,
        settings: &Settings,
        context: &SnapshotContext,
        made: &Made,
    ) -> Result<Template> {
        let mut statements = parse(text, self.limits())?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(QueryError::internal("a shape is no single statement"));
        };
        let Kind::DataFusion(ast) = statement.kind.clone() else {
            return Err(QueryError::internal("a shape is no query"));
        };
        let planned = crate::query::planning::logical_plan(*ast, context.state(settings)).await?;
        let parts = Parts::of(statement, planned, context, settings)?;
        Template::plan(Arc::new(parts), context, settings, &made.answers, &made.schema).await
    }
}
