//! Files in the place of tables: `FROM 'folder/*.csv'`, `read_parquet('…')`, `read_csv('…', delim => ';')`, `DESCRIBE '…'`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart,
    Statement as SqlStatement, TableAlias, TableFactor, TableFunctionArgs, Value, VisitMut, VisitorMut,
};

use crate::error::{ErrorKind, QueryError, Result};

/// The table function that stands for a file table in a statement. Its argument is the position in the result of [`take_files`].
pub const READ_FILES: &str = "read_files";

/// Functions that read files, and the format of each.
const READERS: [(&str, &str); 9] = [
    ("read_parquet", "PARQUET"),
    ("parquet_scan", "PARQUET"),
    ("read_csv", "CSV"),
    ("read_csv_auto", "CSV"),
    ("read_json", "JSON"),
    ("read_json_auto", "JSON"),
    ("read_ndjson", "JSON"),
    ("read_ndjson_auto", "JSON"),
    ("read_jsonl", "JSON"),
];

/// Files that a statement reads as a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTable {
    /// A location, in which `*` stands for any part of a name.
    pub location: String,
    /// The format; none if it follows from the names of the files.
    pub format: Option<String>,
    /// Options, with names in lower case.
    pub options: Vec<(String, String)>,
}

/// Takes the files out of a statement, and puts calls of [`READ_FILES`] in their places.
///
/// # Errors
/// A call without one location, or with an option that is no constant.
pub fn take_files(statement: &mut DfStatement) -> Result<Vec<FileTable>> {
    match statement {
        DfStatement::Statement(ast) => {
            describe_as_query(ast);
            let mut files = Files::default();
            match ast.visit(&mut files) {
                ControlFlow::Continue(()) => Ok(files.found),
                ControlFlow::Break(error) => Err(*error),
            }
        }
        DfStatement::Explain(explain) => take_files(&mut explain.statement),
        _ => Ok(Vec::new()),
    }
}

/// The text of a name in single quotes, which is a location.
fn location_of(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(Ident { value, quote_style: Some('\''), .. })] => Some(value.clone()),
        _ => None,
    }
}

/// Makes `DESCRIBE 'file'` the description of a query of all its columns.
fn describe_as_query(ast: &mut SqlStatement) {
    let SqlStatement::ExplainTable { describe_alias, table_name, .. } = ast else { return };
    let Some(location) = location_of(table_name) else { return };
    let sql = format!("SELECT * FROM '{}'", location.replace('\'', "''"));
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let parsed = datafusion::sql::sqlparser::parser::Parser::parse_sql(&dialect, &sql);
    let Some(query) = parsed.ok().and_then(|mut parsed| parsed.pop()) else { return };
    *ast = SqlStatement::Explain {
        describe_alias: *describe_alias,
        analyze: false,
        verbose: false,
        query_plan: false,
        estimate: false,
        statement: Box::new(query),
        format: None,
        options: None,
    };
}

#[derive(Default)]
struct Files {
    found: Vec<FileTable>,
}

impl VisitorMut for Files {
    type Break = Box<QueryError>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name, alias, args, .. } = factor else { return ControlFlow::Continue(()) };
        let file = match (location_of(name), args.as_ref()) {
            (Some(location), None) => FileTable { location, format: None, options: Vec::new() },
            (None, Some(given)) => match reader(name) {
                Some((function, format)) => match called(function, format, &given.args) {
                    Ok(file) => file,
                    Err(error) => return ControlFlow::Break(Box::new(error)),
                },
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if alias.is_none() {
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', alias_of(&file.location)),
                columns: Vec::new(),
                at: None,
            });
        }
        let place = Expr::Value(Value::Number(self.found.len().to_string(), false).into());
        let place = FunctionArg::Unnamed(FunctionArgExpr::Expr(place));
        *args = Some(TableFunctionArgs { args: vec![place], settings: None });
        *name = ObjectName::from(vec![Ident::new(READ_FILES)]);
        self.found.push(file);
        ControlFlow::Continue(())
    }
}

/// The name of a file without its extensions, if that is a plain name.
fn alias_of(location: &str) -> String {
    let name = location.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let is_plain = !stem.is_empty() && stem.chars().all(|sign| sign.is_alphanumeric() || "_-".contains(sign));
    if is_plain { stem.to_owned() } else { READ_FILES.to_owned() }
}

fn reader(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    READERS
        .into_iter()
        .find(|(reader, _)| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(reader))
}

fn called(function: &str, format: &str, args: &[FunctionArg]) -> Result<FileTable> {
    let usage = || {
        let message = format!("`{function}` needs the location of files as its first argument");
        QueryError::new(ErrorKind::InvalidText, message)
            .hint(format!("write {function}('folder/*.…'), where * stands for any part of a name"))
    };
    let (first, rest) = args.split_first().ok_or_else(usage)?;
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) = first else { return Err(usage()) };
    let location = match first {
        Expr::Array(Array { elem, .. }) => match elem.as_slice() {
            [only] => constant(only),
            _ => None,
        },
        other => constant(other),
    };
    let options = rest.iter().map(|arg| option(function, arg)).collect::<Result<_>>()?;
    let location = location.ok_or_else(usage)?;
    Ok(FileTable { location, format: Some(format.to_owned()), options })
}

/// `name => value`, `name := value` or `name = value`.
fn option(function: &str, arg: &FunctionArg) -> Result<(String, String)> {
    let named = match arg {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((name.value.clone(), value))
        }
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), ..
        } => Some((name.value.clone(), value)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        })) => match left.as_ref() {
            Expr::Identifier(name) => Some((name.value.clone(), right.as_ref())),
            _ => None,
        },
        _ => None,
    };
    let option = named.and_then(|(name, value)| Some((name.to_ascii_lowercase(), constant(value)?)));
    option.ok_or_else(|| {
        let message = format!("`{arg}` is no option of `{function}`");
        QueryError::new(ErrorKind::InvalidText, message).hint("write options as name => 'value'")
    })
}

fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
            Value::Number(number, _) => Some(number.clone()),
            Value::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        },
        Expr::Nested(inner) => constant(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nyala_model::config::QueryConfig;

    use super::*;
    use crate::statement::{Kind, StatementLimits, parse};

    fn taken(sql: &str) -> (Vec<FileTable>, String) {
        let limits = StatementLimits::from(&QueryConfig::default());
        let Kind::DataFusion(mut statement) = parse(sql, &limits).unwrap().remove(0).kind else {
            panic!("{sql}")
        };
        let files = take_files(&mut statement).unwrap();
        (files, statement.to_string())
    }

    #[test]
    fn files_stand_where_tables_do() {
        let check = |sql: &str, locations: &[&str], expected: &str| {
            let (files, shown) = taken(sql);
            let found: Vec<&str> = files.iter().map(|file| file.location.as_str()).collect();
            assert_eq!((found.as_slice(), shown.as_str()), (locations, expected), "{sql}");
        };
        check("SELECT * FROM 'a/b.parquet'", &["a/b.parquet"], "SELECT * FROM read_files(0) AS \"b\"");
        check("SELECT * FROM '*.csv' AS x", &["*.csv"], "SELECT * FROM read_files(0) AS x");
        check(
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM 'q.json')",
            &["q.json"],
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 AS \"?column?\" FROM read_files(0) AS \"q\")",
        );
        check("SELECT * FROM t, \"u.v\"", &[], "SELECT * FROM t, \"u.v\"");
    }

    #[test]
    fn functions_have_options() {
        let (files, _) = taken("SELECT * FROM read_csv('a.txt', delim => ';', header = false)");
        let options =
            [("delim", ";"), ("header", "false")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected =
            FileTable { location: "a.txt".into(), format: Some("CSV".into()), options: options.into() };
        assert_eq!(files, [expected]);
    }
}
