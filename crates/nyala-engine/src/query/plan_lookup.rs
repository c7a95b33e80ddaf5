//! Finds the cached plan of a text, and binds its parameters.

use std::sync::Arc;
use std::time::Instant;

use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::{NodeId, QualifiedName};
use nyala_sql::error::Result;
use nyala_sql::statement::parameterise;

use super::answer::{Answer, Attempts, Start};
use super::authorize::Caller;
use super::execution::Execution;
use super::plan::parameters::exact_values;
use super::plans::{Known, PlanBasis, Template};
use super::prepared::{Form, Prepared};
use super::session::Session;
use crate::session::Settings;

/// A cached plan with values for its parameters.
pub struct ReadyPlan {
    template: Arc<Template>,
    plan: Arc<dyn ExecutionPlan>,
    begun: Instant,
}

impl Session {
    /// The statement of a text with a cached plan, without parsing it. None for all other texts: parse and
    /// prepare them.
    pub(crate) fn recall(&self, sql: &str) -> Option<Prepared> {
        let (snapshots, settings) = (&self.engine.snapshots, self.settings());
        snapshots.limits().check_bytes(sql).ok()?;
        let basis = self.plan_basis(&settings);
        let find = |text: &str| snapshots.plans.find(text, &basis);
        if let Some(parameterised) = parameterise(sql) {
            match find(&parameterised.shape) {
                Some(Known::Ready(template)) => {
                    self.may_run(&template, &settings).ok()?;
                    let values = template.values_of(parameterised.values)?;
                    return Some(Prepared::of_shape(sql, values, &template));
                }
                Some(Known::Kept(query)) => {
                    self.may_read(&query.parts.reads, &settings).ok()?;
                    return Some(Prepared::kept_elsewhere(sql, &query));
                }
                Some(Known::Unfit) => {}
                _ => return None,
            }
        }
        match find(sql) {
            Some(Known::Ready(template)) => {
                self.may_run(&template, &settings).ok()?;
                Some(Prepared::planned(Arc::clone(template.parts())))
            }
            _ => None,
        }
    }

    /// The basis of a plan that is made now.
    pub(crate) fn plan_basis(&self, settings: &Settings) -> PlanBasis {
        PlanBasis::of(settings, &self.engine.snapshots.current(), self.options().dialect)
    }

    /// Whether this session may read the tables of a template, which another session may have made.
    fn may_run(&self, template: &Template, settings: &Settings) -> Result<()> {
        self.may_read(template.reads(), settings)
    }

    fn may_read(&self, tables: &[QualifiedName], settings: &Settings) -> Result<()> {
        Caller::of(self, settings).map_or(Ok(()), |caller| caller.may_read(tables))
    }

    /// The node that keeps the cuboids of a statement in memory, as it was found before, if it can still be asked.
    pub(crate) fn kept_by(&self, prepared: &Prepared) -> Option<NodeId> {
        if !self.engine.catalog().is_shared() || self.options().sent_by.is_some() {
            return None;
        }
        let settings = || {
            let settings = self.settings();
            (self.plan_basis(&settings), settings)
        };
        let (query, (basis, settings)) = match prepared.form() {
            Form::OfShape(text) => (text.kept.clone()?, settings()),
            Form::Planned(parts) => {
                let (text, found) = (parts.described.exact_text()?, settings());
                let Some(Known::Kept(query)) = self.engine.snapshots.plans.find(text, &found.0) else {
                    return None;
                };
                (query, found)
            }
            Form::Command(_) => return None,
        };
        let is_current = query.basis == basis && settings.nyala().distributed;
        self.may_read(&query.parts.reads, &settings).ok()?;
        (is_current && self.engine.cuboid_homes.may_ask(&query.node)).then(|| query.node.clone())
    }

    /// The cached plan of a statement with these parameters. None if it has no plan that could be used now.
    pub(crate) fn bind_ready_plan(
        &self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
        settings: &Settings,
    ) -> Result<Option<ReadyPlan>> {
        let Some(template) = self.template(prepared, settings) else { return Ok(None) };
        self.may_run(&template, settings)?;
        let begun = Instant::now();
        let plan = match prepared.form() {
            Form::OfShape(text) => template.bind(&text.values)?,
            _ => match exact_values(prepared.parameter_types(), parameters)? {
                Some(values) => template.bind(&values)?,
                None => None,
            },
        };
        Ok(plan.map(|plan| ReadyPlan { template, plan, begun }))
    }

    fn template(&self, prepared: &Prepared, settings: &Settings) -> Option<Arc<Template>> {
        let basis = self.plan_basis(settings);
        let parts = match prepared.form() {
            // A text mostly runs once. A statement prepared to run often is looked up each time, so that the plan cache
            // counts its uses.
            Form::OfShape(text) => {
                let template = text.template.upgrade().filter(|template| *template.basis() == basis);
                if template.is_some() {
                    return template;
                }
                &text.parts
            }
            Form::Planned(parts) => parts,
            Form::Command(_) => return None,
        };
        match self.engine.snapshots.plans.find(parts.described.exact_text()?, &basis) {
            Some(Known::Ready(template)) => Some(template),
            _ => None,
        }
    }
}

impl ReadyPlan {
    /// Runs the plan on the thread that polls its rows.
    pub fn start(self, execution: Execution<'_>) -> Result<Answer> {
        let Self { template, plan, begun } = self;
        let Execution { session, settings, deadline, running, .. } = execution;
        let engine = &session.engine;
        engine.snapshots.plans.count(true);
        engine.observed.count_hits(template.asked().len());
        running.entry().follows(&plan, true, Some(Arc::clone(template.route())));
        let start = Start {
            plan,
            task: Arc::clone(template.task()),
            deadline,
            recording: engine.observed.history.begin(Arc::clone(template.asked()), begun),
            slot: None,
            source: settings.nyala().result_cache.then(|| template.source()).flatten(),
            plan_anew: None,
            is_spread: false,
            attempts: Attempts::default(),
        };
        start.here(running)
    }
}
