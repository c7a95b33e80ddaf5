//! Statements about views, and about the names of tables and views.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParser, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    AlterTableOperation, Ident, ObjectName, ObjectNamePart, Query, RenameTableNameKind,
    Statement as SqlStatement, TableAlias, TableFactor, TableObject, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use nyala_model::QualifiedName;

use super::ast::{Kind, Nyala, Statement};
use super::limits::StatementLimits;
use super::live::{LiveStatement, unsupported};
use super::parser::parse;
use super::versions::folded;
use super::words::{expected, from_parser, parse_name, peek_word, skip};
use crate::error::{ErrorKind, QueryError, Result};

/// A statement about views, or about the names of tables and views.
#[derive(Debug, Clone)]
pub enum RelationStatement {
    /// `CREATE [OR REPLACE] VIEW name [(columns)] AS query`
    CreateView(Box<CreateView>),
    /// `DROP TABLE names` or `DROP VIEW names`
    Drop(DropRelations),
    /// `ALTER TABLE name RENAME TO name`, or of a view
    Rename(RenameRelation),
}

/// The parts of a `CREATE VIEW` statement.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Name of the view.
    pub name: ObjectName,
    /// Whether an existing view of this name gets this query.
    pub or_replace: bool,
    /// Whether an existing view of this name is fine.
    pub if_not_exists: bool,
    /// Whether the view ends with the session.
    pub temporary: bool,
    /// Names of the first columns; the others have the names in the query.
    pub columns: Vec<Ident>,
    /// The query, as written.
    pub query: Box<Query>,
}

/// The parts of a `DROP TABLE` or `DROP VIEW` statement.
#[derive(Debug, Clone)]
pub struct DropRelations {
    /// Whether it drops views.
    pub views: bool,
    /// Whether a missing one is fine.
    pub if_exists: bool,
    /// Their names.
    pub names: Vec<ObjectName>,
    /// Whether the views that read them are dropped too.
    pub cascade: bool,
}

/// The parts of an `ALTER … RENAME TO` or `ALTER … SET SCHEMA` statement.
#[derive(Debug, Clone)]
pub struct RenameRelation {
    /// Whether the statement is for views.
    pub view: bool,
    /// Whether a missing one is fine.
    pub if_exists: bool,
    /// The present name.
    pub name: ObjectName,
    /// The part that changes.
    pub to: NewName,
}

/// The part of a name that changes.
#[derive(Debug, Clone)]
pub enum NewName {
    /// The name in its schema.
    Name(Ident),
    /// The schema.
    Schema(Ident),
}

/// Parses one of these statements; none for other statements.
pub fn parse_relations(parser: &mut DFParser<'_>, first: &str, second: &str) -> Result<Option<Nyala>> {
    let statement = match (first, second) {
        ("CREATE", "OR" | "VIEW" | "TEMP" | "TEMPORARY") => parse_create_view(parser)?,
        ("CREATE", "MATERIALIZED") => return Err(no_materialized_view()),
        ("DROP", "TABLE" | "VIEW") => Some(parse_drop(parser, second == "VIEW")?),
        ("ALTER", "TABLE") => {
            skip(parser, 2);
            return parse_alter_table(parser).map(Some);
        }
        ("ALTER", "VIEW") => {
            skip(parser, 2);
            Some(parse_rename(parser)?)
        }
        _ => None,
    };
    Ok(statement.map(relation))
}

fn no_materialized_view() -> QueryError {
    QueryError::new(ErrorKind::Unsupported, "a materialized view is not supported")
        .hint("CREATE CUBE keeps aggregations ready and current; CREATE TABLE … AS keeps the rows of a query")
}

fn parse_create_view(parser: &mut DFParser<'_>) -> Result<Option<RelationStatement>> {
    let words: Vec<String> = (1..5).map(|at| peek_word(parser, at).unwrap_or_default()).collect();
    let or_replace = matches!(words.as_slice(), [or, replace, ..] if or == "OR" && replace == "REPLACE");
    let at = if or_replace { 3 } else { 1 };
    let temporary = matches!(peek_word(parser, at).as_deref(), Some("TEMP" | "TEMPORARY"));
    let at = at + usize::from(temporary);
    if peek_word(parser, at).as_deref() != Some("VIEW") {
        return Ok(None);
    }
    skip(parser, at + 1);
    let if_not_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parse_name(parser)?;
    let columns = parser
        .parser
        .parse_parenthesized_column_list(datafusion::sql::sqlparser::parser::IsOptional::Optional, false)
        .map_err(from_parser)?;
    if !parser.parser.parse_keyword(Keyword::AS) {
        return Err(expected(parser, "`AS` and the query of the view"));
    }
    let query = parser.parser.parse_query().map_err(from_parser)?;
    let view = CreateView { name, or_replace, if_not_exists, temporary, columns, query };
    Ok(Some(RelationStatement::CreateView(Box::new(view))))
}

fn parse_drop(parser: &mut DFParser<'_>, views: bool) -> Result<RelationStatement> {
    skip(parser, 2);
    let if_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names =
        parser.parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(from_parser)?;
    let cascade = parser.parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    let cascade = cascade == Some(Keyword::CASCADE);
    Ok(RelationStatement::Drop(DropRelations { views, if_exists, names, cascade }))
}

/// The part after `ALTER VIEW`.
fn parse_rename(parser: &mut DFParser<'_>) -> Result<RelationStatement> {
    let if_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parse_name(parser)?;
    let to = if parser.parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        NewName::Name(parser.parser.parse_identifier().map_err(from_parser)?)
    } else if parser.parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        NewName::Schema(parser.parser.parse_identifier().map_err(from_parser)?)
    } else {
        return Err(expected(parser, "`RENAME TO` or `SET SCHEMA`"));
    };
    Ok(RelationStatement::Rename(RenameRelation { view: true, if_exists, name, to }))
}

/// The part after `ALTER TABLE`: a statement about names or about columns.
fn parse_alter_table(parser: &mut DFParser<'_>) -> Result<Nyala> {
    let words: Vec<String> = (0..8).map(|at| peek_word(parser, at).unwrap_or_default()).collect();
    if words.windows(2).any(|pair| matches!(pair, [set, schema] if set == "SET" && schema == "SCHEMA")) {
        let RelationStatement::Rename(rename) = parse_rename(parser)? else {
            return Err(QueryError::internal("a change of a name became another statement"));
        };
        return Ok(relation(RelationStatement::Rename(RenameRelation { view: false, ..rename })));
    }
    let alter = match parser.parser.parse_alter_table(false).map_err(from_parser)? {
        SqlStatement::AlterTable(alter) => alter,
        other => return Err(unsupported(&other.to_string())),
    };
    let [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }] =
        alter.operations.as_slice()
    else {
        return Ok(Nyala::Live(Box::new(LiveStatement::AlterTable(Box::new(alter)))));
    };
    let [ObjectNamePart::Identifier(to)] = to.0.as_slice() else {
        let message = format!("the new name `{to}` has a schema");
        return Err(QueryError::new(ErrorKind::Syntax, message).hint("ALTER TABLE … SET SCHEMA changes that"));
    };
    let (name, to) = (alter.name.clone(), NewName::Name(to.clone()));
    Ok(relation(RelationStatement::Rename(RenameRelation {
        view: false,
        if_exists: alter.if_exists,
        name,
        to,
    })))
}

fn relation(statement: RelationStatement) -> Nyala {
    Nyala::Relation(Box::new(statement))
}

impl fmt::Display for RelationStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateView(view) => view.fmt(f),
            Self::Drop(DropRelations { views, if_exists, names, cascade }) => {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                let what = if *views { "VIEW" } else { "TABLE" };
                let condition = if *if_exists { " IF EXISTS" } else { "" };
                let cascade = if *cascade { " CASCADE" } else { "" };
                write!(f, "DROP {what}{condition} {}{cascade}", names.join(", "))
            }
            Self::Rename(RenameRelation { view, if_exists, name, to }) => {
                let what = if *view { "VIEW" } else { "TABLE" };
                let condition = if *if_exists { " IF EXISTS" } else { "" };
                match to {
                    NewName::Name(to) => write!(f, "ALTER {what}{condition} {name} RENAME TO {to}"),
                    NewName::Schema(to) => write!(f, "ALTER {what}{condition} {name} SET SCHEMA {to}"),
                }
            }
        }
    }
}

impl fmt::Display for CreateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replace = if self.or_replace { "OR REPLACE " } else { "" };
        let temporary = if self.temporary { "TEMPORARY " } else { "" };
        let condition = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "CREATE {replace}{temporary}VIEW {condition}{}", self.name)?;
        if !self.columns.is_empty() {
            let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
            write!(f, " ({})", columns.join(", "))?;
        }
        write!(f, " AS {}", self.query)
    }
}

/// Adds its schema to each table that a query reads, so that the query means the same under any search path;
/// returns the tables. `find` looks up the tables of names in the statement.
pub fn name_with_schemas(
    query: &mut Query,
    find: &dyn Fn(&ObjectName) -> Option<QualifiedName>,
) -> Vec<QualifiedName> {
    let mut naming = Naming { find, defined: Vec::new(), found: Vec::new() };
    let _ = VisitMut::visit(query, &mut naming);
    naming.found
}

/// Parses a query that was named [with schemas](name_with_schemas), and puts in the present names of its tables.
pub fn parse_named(
    query: &str,
    renamed: &BTreeMap<QualifiedName, QualifiedName>,
    limits: &StatementLimits,
) -> Result<Statement> {
    let mut parsed =
        parse(query, limits)?.pop().ok_or_else(|| QueryError::internal("a view has no query"))?;
    if !renamed.is_empty()
        && let Some(query) = parsed.query_mut()
    {
        let find = |name: &ObjectName| match parts(name).as_slice() {
            [schema, name] => renamed.get(&QualifiedName::new(schema, name)).cloned(),
            _ => None,
        };
        name_with_schemas(query, &find);
    }
    Ok(parsed)
}

/// Gives the tables of a statement the names that `find` has for them: in a statement that is planned as SQL,
/// and in a query whose rows another statement takes.
pub fn name_tables(statement: &mut Statement, find: &dyn Fn(&ObjectName) -> Option<QualifiedName>) {
    let query = match &mut statement.kind {
        Kind::DataFusion(statement) => return name_tables_in(statement, find),
        Kind::Nyala(Nyala::CopyTo(copy)) => Some(&mut copy.query),
        Kind::Nyala(Nyala::Live(live)) => match live.as_mut() {
            LiveStatement::CreateTable { create, .. } => create.query.as_mut(),
            _ => None,
        },
        Kind::Nyala(_) => None,
    };
    if let Some(query) = query {
        name_with_schemas(query, find);
    }
}

fn name_tables_in(statement: &mut DfStatement, find: &dyn Fn(&ObjectName) -> Option<QualifiedName>) {
    let ast = match statement {
        DfStatement::Statement(ast) => ast,
        DfStatement::Explain(explain) => return name_tables_in(&mut explain.statement, find),
        _ => return,
    };
    let target = |name: &mut ObjectName| {
        if let Some(table) = find(name) {
            *name = quoted(&table);
        }
    };
    match ast.as_mut() {
        SqlStatement::Insert(insert) => {
            if let TableObject::TableName(name) = &mut insert.table {
                target(name);
            }
        }
        SqlStatement::Truncate(truncate) => {
            truncate.table_names.iter_mut().for_each(|table| target(&mut table.name));
        }
        _ => {}
    }
    let _ = VisitMut::visit(ast, &mut Naming { find, defined: Vec::new(), found: Vec::new() });
}

fn quoted(table: &QualifiedName) -> ObjectName {
    let parts = [table.schema.as_str(), table.name.as_str()].map(|part| Ident::with_quote('"', part));
    ObjectName::from(Vec::from(parts))
}

struct Naming<'a> {
    find: &'a dyn Fn(&ObjectName) -> Option<QualifiedName>,
    /// The names that each enclosing WITH defines.
    defined: Vec<Vec<String>>,
    found: Vec<QualifiedName>,
}

impl VisitorMut for Naming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.push(with.map(|cte| folded(&cte.alias.name)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.defined.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let written = parts(name);
        let is_defined = |name: &String| self.defined.iter().flatten().any(|defined| defined == name);
        if matches!(written.as_slice(), [name] if is_defined(name)) {
            return ControlFlow::Continue(());
        }
        let Some(table) = (self.find)(name) else { return ControlFlow::Continue(()) };
        // Columns must still be found by the name that the query has for the table.
        if alias.is_none()
            && let Some(last) = written.last().filter(|last| written.len() == 1 || **last != table.name)
        {
            let name = Ident::with_quote('"', last.clone());
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        *name = quoted(&table);
        self.found.push(table);
        ControlFlow::Continue(())
    }
}

fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(folded).collect()
}
