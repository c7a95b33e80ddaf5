//! The temporary tables of a session, which its names mean before all others.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use nyala_model::QualifiedName;
use nyala_sql::statement::folded;

/// Schemas of temporary tables begin with this.
pub const TEMPORARY_SCHEMA: &str = "pg_temp_";
/// The name by which every session knows its own temporary schema.
const OWN_SCHEMA: &str = "pg_temp";

/// The names of the temporary tables and views of a session, and their schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Temporary {
    schema: Arc<str>,
    names: BTreeSet<String>,
}

impl Temporary {
    /// No names yet, in the schema of the session.
    pub fn new(schema: Arc<str>) -> Self {
        Self { schema, names: BTreeSet::new() }
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<str> {
        &self.schema
    }

    /// Adds a name.
    pub fn with(mut self, name: &str) -> Self {
        self.names.insert(name.to_owned());
        self
    }

    /// Leaves out the names of tables that are not there any more.
    pub fn only(mut self, is_there: impl Fn(&QualifiedName) -> bool) -> Self {
        let schema = &self.schema;
        self.names.retain(|name| is_there(&QualifiedName::new(&**schema, name)));
        self
    }

    /// The temporary table that a name in a statement means.
    pub fn find(&self, name: &ObjectName) -> Option<QualifiedName> {
        let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
        self.find_parts(&parts?.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// As [`Self::find`], for a name in parts.
    pub fn find_parts(&self, parts: &[&str]) -> Option<QualifiedName> {
        match parts {
            [name] => self.names.contains(*name).then(|| QualifiedName::new(&*self.schema, *name)),
            [schema, name] if *schema == OWN_SCHEMA || *schema == &*self.schema => {
                Some(QualifiedName::new(&*self.schema, *name))
            }
            _ => None,
        }
    }

    /// A text that is equal for equal names, as a part of the key of the settings.
    pub fn key(&self) -> String {
        format!("{} {:?}", self.schema, self.names)
    }
}
