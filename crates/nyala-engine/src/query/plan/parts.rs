//! A planned statement: its plan, its parameters, its columns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::LogicalPlan;
use nyala_model::{CatalogSnapshot, ChangeId, QualifiedName, SnapshotVersion};
use nyala_sql::error::Result;
use nyala_sql::statement::{IfExists, Statement};

use super::kept::Kept;
use super::logical::{Planned, Unoptimized};
use super::parameters;
use super::returning::Returning;
use crate::session::{Settings, SnapshotContext};

/// Bytes of a statement that are kept as text for lists and logs, which show fewer: it may be a megabyte.
const SHOWN_BYTES: usize = 64 << 10;

/// A statement, and the columns of its answer.
#[derive(Debug)]
pub struct Described {
    pub statement: Statement,
    /// Columns of the answer; none if the statement gives no rows.
    pub schema: Option<SchemaRef>,
    /// The beginning of the statement as it displays, computed on first use.
    shown: OnceLock<Box<str>>,
    /// Data that doors keep with the statement.
    pub kept: Kept,
    /// How long it took to parse and to prepare, in nanoseconds, until an execution has taken it.
    preparing: AtomicU64,
}

impl Described {
    pub fn new(statement: Statement, schema: Option<SchemaRef>) -> Self {
        let (shown, kept, preparing) = (OnceLock::new(), Kept::default(), AtomicU64::new(0));
        Self { statement, schema, shown, kept, preparing }
    }

    /// Records how long it took to prepare, besides parsing.
    pub fn prepared_within(&self, time: Duration) {
        let all = time.saturating_add(self.statement.parsing());
        self.preparing.store(u64::try_from(all.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long it took to parse and to prepare. Zero from the second time on: a statement is prepared for its first
    /// execution, and later ones are spared it.
    pub fn take_preparing(&self) -> Duration {
        // Many executions of a cached plan read it at once, and none of them writes.
        match self.preparing.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(self.preparing.swap(0, Ordering::Relaxed)),
        }
    }

    /// The text as the client wrote it, or the beginning of the statement as it displays.
    pub fn text(&self) -> &str {
        let shown = || self.shown.get_or_init(|| self.statement.beginning(SHOWN_BYTES).into());
        self.exact_text().unwrap_or_else(|| shown())
    }

    /// The text as the client wrote it, if that is known and has no other statement in it.
    pub fn exact_text(&self) -> Option<&str> {
        self.statement.text().map(AsRef::as_ref)
    }
}

/// The result of planning a statement.
#[derive(Debug)]
pub struct Parts {
    pub described: Described,
    pub parameter_types: Vec<Option<DataType>>,
    pub plan: Arc<Unoptimized>,
    /// The tables and views that it names, also in RETURNING: a session that runs it must be allowed to read them.
    pub reads: Arc<[QualifiedName]>,
    /// The snapshot and the key of the settings: types may depend on these as well as names.
    planned_for: (SnapshotVersion, ChangeId, Arc<str>),
    /// What an INSERT does with rows whose keys are in the table.
    pub if_exists: IfExists,
    /// The RETURNING clause of the statement.
    pub returning: Option<Returning>,
}

impl Parts {
    pub fn of(
        statement: Statement,
        planned: Planned,
        context: &SnapshotContext,
        settings: &Settings,
    ) -> Result<Self> {
        Ok(Self {
            parameter_types: parameters::parameter_types(planned.plan.logical())?,
            described: Described::new(statement, planned.schema),
            plan: Arc::new(planned.plan),
            reads: planned.reads.into(),
            planned_for: basis(context.snapshot(), settings),
            if_exists: IfExists::default(),
            returning: None,
        })
    }

    /// Whether names and types have the meaning with which they were planned.
    pub fn is_planned_for(&self, snapshot: &CatalogSnapshot, settings: &Settings) -> bool {
        self.planned_for == basis(snapshot, settings)
    }

    /// These parts, for a statement that writes.
    pub fn writing(mut self, if_exists: IfExists, returning: Option<Returning>) -> Result<Self> {
        if let Some(returning) = &returning {
            self.described.schema = Some(Arc::clone(returning.schema()));
            let further = parameters::parameter_types(returning.logical())?;
            self.parameter_types = parameters::either_types(self.parameter_types, further);
            self.reads = self.reads.iter().chain(returning.reads()).cloned().collect();
        }
        Ok(Self { if_exists, returning, ..self })
    }

    /// The plans of the statement and of its RETURNING clause.
    pub fn plans(&self) -> impl Iterator<Item = &LogicalPlan> {
        let plan = std::iter::once(self.plan.logical());
        plan.chain(self.returning.as_ref().map(Returning::logical))
    }

    /// Length of its text.
    pub fn text_bytes(&self) -> usize {
        self.described.exact_text().map_or(0, str::len)
    }
}

fn basis(snapshot: &CatalogSnapshot, settings: &Settings) -> (SnapshotVersion, ChangeId, Arc<str>) {
    (snapshot.version, snapshot.change.clone(), Arc::clone(settings.key()))
}
