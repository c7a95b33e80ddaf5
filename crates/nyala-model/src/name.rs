//! Names of objects inside schemas.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `schema.name` of a table or cube. Both parts are compared exactly: the parser has lower-cased
/// unquoted SQL identifiers before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QualifiedName {
    /// The schema, `public` unless the user chose another.
    pub schema: String,
    /// The object's name within the schema.
    pub name: String,
}

impl QualifiedName {
    /// Joins the two parts.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}
