//! Statements that are planned far enough to know their parameters and columns, and may be executed many times.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use nyala_sql::statement::{CacheStatement, Kind, Nyala, Statement};

use super::plan::origins::{Origin, origins};
use super::plan::parts::{Described, Parts};
use super::plans::{KeptQuery, Template};

/// A statement planned far enough to know its parameters and columns. It may be executed many times; when
/// the catalog or a setting has changed it is planned anew. Cheap to copy.
///
/// Behind a trait object: doors hold prepared statements in many futures, and the compiler would prove for each of them anew that all types
/// of statements and plans may pass between threads.
#[derive(Debug, Clone)]
pub struct Prepared(Arc<dyn HasForm>);

trait HasForm: fmt::Debug + Send + Sync {
    fn form(&self) -> &Form;
}

impl HasForm for Form {
    fn form(&self) -> &Form {
        self
    }
}

/// The way in which a statement will run.
#[derive(Debug)]
pub enum Form {
    /// DataFusion does not plan it: a statement of Nyala, EXPLAIN, SHOW of a setting.
    Command(Described),
    /// Its names and types are resolved.
    Planned(Arc<Parts>),
    /// A text of a shape that has a cached plan.
    OfShape(OfShape),
}

/// A text of a known shape.
#[derive(Debug)]
pub struct OfShape {
    /// The text as the client wrote it.
    pub sql: String,
    /// The values that were taken out of it.
    pub values: Vec<ScalarValue>,
    /// The statement with parameters in the places of the values.
    pub parts: Arc<Parts>,
    /// The cached plan. A weak reference, because a plan keeps its data in memory.
    pub template: Weak<Template>,
    /// The query whose cuboids another node keeps in memory; it has no cached plan here.
    pub kept: Option<Arc<KeptQuery>>,
}

impl Prepared {
    pub(crate) fn command(statement: Statement, schema: Option<SchemaRef>) -> Self {
        Self(Arc::new(Form::Command(Described::new(statement, schema))))
    }

    pub(crate) fn planned(parts: Arc<Parts>) -> Self {
        Self(Arc::new(Form::Planned(parts)))
    }

    pub(crate) fn of_shape(sql: &str, values: Vec<ScalarValue>, template: &Arc<Template>) -> Self {
        let (sql, parts) = (sql.to_owned(), Arc::clone(template.parts()));
        let template = Arc::downgrade(template);
        Self(Arc::new(Form::OfShape(OfShape { sql, values, parts, template, kept: None })))
    }

    pub(crate) fn kept_elsewhere(sql: &str, query: &Arc<KeptQuery>) -> Self {
        let (sql, parts, kept) = (sql.to_owned(), Arc::clone(&query.parts), Some(Arc::clone(query)));
        let text = OfShape { sql, values: Vec::new(), parts, template: Weak::new(), kept };
        Self(Arc::new(Form::OfShape(text)))
    }

    pub(crate) fn form(&self) -> &Form {
        self.0.form()
    }

    pub(crate) fn described(&self) -> &Described {
        match self.form() {
            Form::Command(described) => described,
            Form::Planned(parts) => &parts.described,
            Form::OfShape(text) => &text.parts.described,
        }
    }

    /// The text as the client wrote it, or as the statement displays, for lists and logs.
    pub fn text(&self) -> &str {
        match self.form() {
            Form::OfShape(text) => &text.sql,
            _ => self.described().text(),
        }
    }

    /// The text as the client wrote it, if that is known and has no other statement in it.
    pub(crate) fn exact_text(&self) -> Option<&str> {
        match self.form() {
            Form::OfShape(text) => Some(&text.sql),
            _ => self.described().exact_text(),
        }
    }

    /// The statement. If values were taken out of its text, it has parameters for them.
    pub fn statement(&self) -> &Statement {
        &self.described().statement
    }

    /// Type of each parameter, `$1` first; none where it could not be inferred.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        match self.form() {
            Form::Planned(parts) => &parts.parameter_types,
            Form::Command(_) | Form::OfShape(_) => &[],
        }
    }

    /// Whether it changes the catalog, rows of tables, roles and grants, or what is kept of them.
    pub fn changes(&self) -> bool {
        match self.form() {
            Form::Command(described) => match &described.statement.kind {
                Kind::Nyala(Nyala::Unneeded(_)) => false,
                // A build makes segments and DROP CACHE deletes blocks, although their answers may have rows.
                Kind::Nyala(Nyala::BuildCube(_) | Nyala::Cache(CacheStatement::Drop(_))) => true,
                _ => described.schema.is_none(),
            },
            Form::Planned(parts) => matches!(parts.plan.logical(), LogicalPlan::Ddl(_) | LogicalPlan::Dml(_)),
            Form::OfShape(_) => false,
        }
    }

    /// Whether it writes rows, also if it gives some back.
    pub fn writes_rows(&self) -> bool {
        matches!(self.form(), Form::Planned(parts) if matches!(parts.plan.logical(), LogicalPlan::Dml(_)))
    }

    /// Data that a door keeps with this statement, shared by all sessions that run it; the default at first. Each door
    /// has a type of its own.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.described().kept.get()
    }

    /// Where the columns of the result come from; empty if that is not known.
    pub fn origins(&self) -> Vec<Option<Origin>> {
        let parts = match self.form() {
            Form::Command(_) => return Vec::new(),
            Form::Planned(parts) => parts,
            Form::OfShape(text) => &text.parts,
        };
        origins(parts.plans().last().unwrap_or(parts.plan.logical()))
    }

    /// Columns of the result; none if it gives no rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.described().schema.clone()
    }
}
