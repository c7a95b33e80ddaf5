//! Statements that are planned far enough to know their parameters and columns, and may be executed many times.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use nyala_model::SnapshotVersion;
use nyala_sql::error::Result;
use nyala_sql::statement::{IfExists, Kind, Statement};

use super::live::Returning;
use super::parameters;
use super::planning::{Planned, Unoptimized};
use super::plans::Template;
use super::show;
use crate::session::{Settings, SnapshotContext};

/// Bytes of a statement that are kept as text for lists and logs, which show fewer: it may be a megabyte.
const SHOWN_BYTES: usize = 64 << 10;

/// A statement planned far enough to know its parameters and columns. It may be executed many times; when
/// the catalog or a setting has changed it is planned anew. Cheap to copy.
#[derive(Debug, Clone)]
pub struct Prepared {
    parts: Arc<Parts>,
    /// The original text and its values, if the statement is the shape of a text.
    taken: Option<Arc<Taken>>,
    /// The cached plan that may run it. A weak reference, because a plan keeps its data in memory.
    template: Weak<Template>,
}

/// The result of planning a statement.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) statement: Statement,
    pub(super) parameter_types: Vec<Option<DataType>>,
    pub(super) schema: Option<SchemaRef>,
    pub(super) plan: Option<Arc<Unoptimized>>,
    /// The snapshot and the key of the settings: types may depend on these as well as names.
    pub(super) planned_for: (SnapshotVersion, Arc<str>),
    /// For an INSERT.
    pub(super) if_exists: IfExists,
    /// For a statement with RETURNING.
    pub(super) returning: Option<Returning>,
    /// The beginning of the statement as it displays, computed on first use.
    pub(super) shown: OnceLock<Box<str>>,
    /// Data that a protocol keeps with the statement.
    pub(super) kept: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// A text, and the values that were taken out of it.
#[derive(Debug)]
struct Taken {
    sql: String,
    values: Vec<ScalarValue>,
}

impl Parts {
    pub(super) fn of(
        statement: Statement,
        planned: Planned,
        context: &SnapshotContext,
        settings: &Settings,
    ) -> Result<Self> {
        Ok(Self {
            statement,
            parameter_types: parameters::parameter_types(planned.plan.logical())?,
            schema: planned.schema,
            plan: Some(Arc::new(planned.plan)),
            planned_for: (context.snapshot().version, Arc::clone(settings.key())),
            if_exists: IfExists::default(),
            returning: None,
            shown: OnceLock::new(),
            kept: OnceLock::new(),
        })
    }

    /// The same for a statement that writes.
    pub(super) fn writing(mut self, if_exists: IfExists, returning: Option<Returning>) -> Result<Self> {
        if let Some(returning) = &returning {
            self.schema = Some(Arc::clone(returning.schema()));
            let further = parameters::parameter_types(returning.logical())?;
            self.parameter_types = parameters::either_types(self.parameter_types, further);
        }
        Ok(Self { if_exists, returning, ..self })
    }

    /// The plans of the statement and of its RETURNING clause.
    pub(super) fn plans(&self) -> impl Iterator<Item = &LogicalPlan> {
        let plan = self.plan.as_ref().map(|plan| plan.logical());
        plan.into_iter().chain(self.returning.as_ref().map(Returning::logical))
    }

    /// Length of its text.
    pub(super) fn text_bytes(&self) -> usize {
        self.statement.text().map_or(0, |text| text.len())
    }
}

impl Prepared {
    pub(super) fn from_parts(parts: Arc<Parts>) -> Self {
        Self { parts, taken: None, template: Weak::new() }
    }

    /// The statement that a template answers.
    pub(super) fn of_template(template: &Arc<Template>) -> Self {
        Self { parts: Arc::clone(template.parts()), taken: None, template: Arc::downgrade(template) }
    }

    /// The statement `sql`, of which this is the shape, with the values that were taken out.
    pub(super) fn taken_from(self, sql: &str, values: Vec<ScalarValue>) -> Self {
        Self { taken: Some(Arc::new(Taken { sql: sql.to_owned(), values })), ..self }
    }

    /// The template it was found by, if that is still there. Only for a text with its values taken out, which mostly runs
    /// once: a statement prepared to run often is looked up each time, so that the plan cache counts its uses.
    pub(super) fn template(&self) -> Option<Arc<Template>> {
        self.taken.as_ref().and_then(|_| self.template.upgrade())
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// Values of the parameters that were taken out of the text, so that the client does not give them.
    pub(super) fn taken(&self) -> Option<&[ScalarValue]> {
        self.taken.as_ref().map(|taken| taken.values.as_slice())
    }

    /// The text that the values were taken out of.
    pub(super) fn taken_from_text(&self) -> Option<&str> {
        self.taken.as_ref().map(|taken| taken.sql.as_str())
    }

    /// The text as the client wrote it, or as the statement displays, for lists and logs.
    pub(super) fn text(&self) -> &str {
        let shown = || self.parts.shown.get_or_init(|| self.parts.statement.beginning(SHOWN_BYTES).into());
        self.exact_text().unwrap_or_else(|| shown())
    }

    /// The text as the client wrote it, if that is known and has no other statement in it.
    pub(super) fn exact_text(&self) -> Option<&str> {
        match (&self.taken, self.parts.statement.text()) {
            (Some(taken), _) => Some(&taken.sql),
            (None, text) => text.map(AsRef::as_ref),
        }
    }

    /// The statement. If values were taken out of its text, it has parameters for them.
    pub fn statement(&self) -> &Statement {
        &self.parts.statement
    }

    /// Type of each parameter, `$1` first; none where it could not be inferred.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        match self.taken {
            Some(_) => &[],
            None => &self.parts.parameter_types,
        }
    }

    /// Whether it changes the catalog, rows of tables, or roles and grants.
    pub fn changes(&self) -> bool {
        match &self.parts.statement.kind {
            Kind::Nyala(statement) => show::schema(statement).is_none(),
            Kind::DataFusion(_) => {
                let plan = self.parts.plan.as_ref().map(|plan| plan.logical());
                matches!(plan, Some(LogicalPlan::Ddl(_))) || self.writes_rows()
            }
        }
    }

    /// Whether it writes rows, also if it gives some back.
    pub fn writes_rows(&self) -> bool {
        let plan = self.parts.plan.as_ref().map(|plan| plan.logical());
        matches!(plan, Some(LogicalPlan::Dml(_)))
    }

    /// Data that a protocol keeps with this statement, shared by all sessions that run it; the default at first. None
    /// if data of another type is kept already.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Option<Arc<T>> {
        let kept = self.parts.kept.get_or_init(|| Arc::new(T::default()));
        Arc::clone(kept).downcast().ok()
    }

    /// Columns of the result; none if it gives no rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.parts.schema.clone()
    }
}
