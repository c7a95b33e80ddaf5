//! Parsed statements.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement as SqlStatement};

use super::alter::{AlterCube, DropSegments};
use super::copy::CopyInto;
use super::copy_to::CopyTo;
use super::cube_statements::{BuildCube, CreateCube, Recommend};
use super::live::LiveStatement;
use super::relations::RelationStatement;
use super::roles::RoleStatement;
use super::session_tokens::without_tokens;
use super::unneeded::Unneeded;

/// One parsed statement, not yet planned. Displays as SQL.
#[derive(Debug, Clone)]
pub struct Statement {
    /// A statement of Nyala, or one for DataFusion.
    pub kind: Kind,
    /// The text that the statement was parsed from, if it is the only statement of the text, is a query, and was not changed since.
    text: Option<Arc<str>>,
    parsing: Duration,
    may_name_user: bool,
}

/// A statement of Nyala, or one that DataFusion plans.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Ours.
    Nyala(Nyala),
    /// DataFusion's.
    DataFusion(Box<DfStatement>),
}

/// Statements that only Nyala knows.
#[derive(Debug, Clone)]
pub enum Nyala {
    /// `CREATE CUBE [IF NOT EXISTS] name AS SELECT …`
    CreateCube(Box<CreateCube>),
    /// `BUILD CUBE name [WITH (wait = off)] [FROM … TO …]`, `REFRESH CUBE …`, `MERGE CUBE …`
    BuildCube(Box<BuildCube>),
    /// `ALTER CUBE name ADD …, DROP …`
    AlterCube(Box<AlterCube>),
    /// `ALTER CUBE name DROP SEGMENTS [FROM … TO … | number, …]`
    DropSegments(Box<DropSegments>),
    /// `DROP CUBE [IF EXISTS] name`
    DropCube {
        /// The cube.
        name: ObjectName,
        /// Whether a missing cube is no error.
        if_exists: bool,
    },
    /// `SHOW CUBES`
    ShowCubes,
    /// `SHOW CREATE CUBE name`
    ShowCreateCube {
        /// The cube.
        name: ObjectName,
    },
    /// `SHOW SEGMENTS [FOR name]`
    ShowSegments {
        /// The cube; all when absent.
        cube: Option<ObjectName>,
    },
    /// `SHOW CUBOIDS [FOR name]`
    ShowCuboids {
        /// The cube; all when absent.
        cube: Option<ObjectName>,
    },
    /// `SHOW JOBS`
    ShowJobs,
    /// `CANCEL JOB number`
    CancelJob(u64),
    /// `SHOW QUERY HISTORY`
    ShowQueryHistory,
    /// `KILL QUERY id [ON NODE 'name']`
    KillQuery {
        /// The statement's id in `system.queries`.
        id: u64,
        /// The node that runs the statement; the node that is asked when absent.
        node: Option<String>,
    },
    /// `BACKUP TO 'folder' [BASE 'folder']`
    Backup(Backup),
    /// `CHECK CUBE name [SAMPLE n]`
    CheckCube {
        /// The cube.
        name: ObjectName,
        /// How many random queries are compared.
        sample: Option<u64>,
    },
    /// `ANALYZE CUBE name`
    AnalyzeCube {
        /// The cube.
        name: ObjectName,
    },
    /// `WARM CACHE FOR …`, `DROP CACHE [FOR …]`
    Cache(CacheStatement),
    /// `RECOMMEND CUBE FOR SCHEMA name [WITH (…)]` or `… TABLE name [WITH (…)]`
    RecommendCube(Recommend),
    /// `CREATE ROLE`, `GRANT` and their kin.
    Role(Box<RoleStatement>),
    /// `COPY … TO 'location'`
    CopyTo(Box<CopyTo>),
    /// `CREATE LIVE TABLE`, `COPY` and their kin.
    Live(Box<LiveStatement>),
    /// `ANALYZE`, `COMMENT ON` and their kin.
    Unneeded(Unneeded),
    /// `CREATE VIEW`, `DROP TABLE` and their kin.
    Relation(Box<RelationStatement>),
}

/// A statement about cached blocks of remote files.
#[derive(Debug, Clone)]
pub enum CacheStatement {
    /// Reads all of the files into the cache.
    Warm(CacheScope),
    /// Deletes the blocks of the files, or all.
    Drop(Option<CacheScope>),
}

/// The files that a statement about the cache names.
#[derive(Debug, Clone)]
pub enum CacheScope {
    /// The files of an external table.
    Table(ObjectName),
    /// The cuboids of a cube.
    Cube(ObjectName),
}

impl Statement {
    /// The SQL parser's tree; none for statements that only Nyala or DataFusion know.
    pub fn ast(&self) -> Option<&SqlStatement> {
        match &self.kind {
            Kind::DataFusion(statement) => match statement.as_ref() {
                DfStatement::Statement(ast) => Some(ast),
                _ => None,
            },
            Kind::Nyala(_) => None,
        }
    }

    /// The query, if the statement is one.
    pub fn query_mut(&mut self) -> Option<&mut Query> {
        match &mut self.kind {
            Kind::DataFusion(statement) => match statement.as_mut() {
                DfStatement::Statement(ast) => match ast.as_mut() {
                    SqlStatement::Query(query) => Some(query),
                    _ => None,
                },
                _ => None,
            },
            Kind::Nyala(_) => None,
        }
    }

    /// The SQL parser's tree, to be changed; for EXPLAIN that of the explained statement. The statement's text is forgotten.
    pub fn ast_mut(&mut self) -> Option<&mut SqlStatement> {
        self.text = None;
        let Kind::DataFusion(statement) = &mut self.kind else { return None };
        let mut statement = statement.as_mut();
        loop {
            statement = match statement {
                DfStatement::Statement(ast) => return Some(ast),
                DfStatement::Explain(explain) => explain.statement.as_mut(),
                _ => return None,
            };
        }
    }

    /// Whether the statement only ends other work: `KILL QUERY`, `CANCEL JOB`.
    pub fn ends_work(&self) -> bool {
        matches!(self.kind, Kind::Nyala(Nyala::KillQuery { .. } | Nyala::CancelJob(_)))
    }

    /// The COPY of rows that the client sends, if the statement is one.
    pub fn copy_from_client(&self) -> Option<&CopyInto> {
        match &self.kind {
            Kind::Nyala(Nyala::Live(live)) => match live.as_ref() {
                LiveStatement::Copy(copy) if copy.location.is_none() => Some(copy),
                _ => None,
            },
            _ => None,
        }
    }

    /// A statement from a tree that a door has made or changed.
    pub fn from_ast(ast: SqlStatement) -> Self {
        Self::new(Kind::DataFusion(Box::new(DfStatement::Statement(Box::new(ast)))))
    }

    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, text: None, parsing: Duration::ZERO, may_name_user: true }
    }

    /// Whether the statement may name the session's user. False is certain, true is not.
    pub(super) fn may_name_user(&self) -> bool {
        self.may_name_user
    }

    /// Records whether the statement's text has a word for the session's user.
    pub(super) fn set_may_name_user(&mut self, may: bool) {
        self.may_name_user = may;
    }

    /// Forgets the text, which no longer stands for the statement.
    pub(super) fn forget_text(&mut self) {
        self.text = None;
    }

    /// Keeps the text, if the statement is a query. Other statements are shown by `Display`, which leaves out passwords.
    pub(super) fn keep_text(&mut self, text: &str) {
        if matches!(self.ast(), Some(SqlStatement::Query(_))) {
            self.text = Some(text.into());
        }
    }

    /// The text that the statement was parsed from, if it stands for that text alone.
    pub fn text(&self) -> Option<&Arc<str>> {
        self.text.as_ref()
    }

    /// Records how long the text took to parse.
    pub fn parsed_within(&mut self, time: Duration) {
        self.parsing = time;
    }

    /// How long the text took to parse; zero if unknown, as for one of several statements in a text.
    pub fn parsing(&self) -> Duration {
        self.parsing
    }

    /// The first `bytes` bytes of the text, or of the `Display` form, which is not written further than that.
    pub fn beginning(&self, bytes: usize) -> String {
        let mut begun = Beginning { text: String::new(), left: bytes };
        // Both writes fail when there is no room left.
        if let Some(text) = &self.text {
            let _ = begun.write_str(text);
            return begun.text;
        }
        let _ = write!(begun, "{self}");
        without_tokens(&begun.text)
    }

    /// A query as a statement of its own.
    pub fn query(query: Box<Query>) -> DfStatement {
        DfStatement::Statement(Box::new(SqlStatement::Query(query)))
    }

    /// The statement that an EXPLAIN explains.
    pub fn explained(&self) -> Option<(&ExplainStatement, &DfStatement)> {
        match &self.kind {
            Kind::DataFusion(statement) => match statement.as_ref() {
                DfStatement::Explain(explain) => Some((explain, &explain.statement)),
                _ => None,
            },
            Kind::Nyala(_) => None,
        }
    }
}

/// A writer that takes text until there is no room left.
struct Beginning {
    text: String,
    left: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let taken = part.get(..part.floor_char_boundary(self.left)).unwrap_or_default();
        self.text.push_str(taken);
        self.left -= taken.len();
        if taken.len() == part.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Nyala(statement) => statement.fmt(f),
            Kind::DataFusion(statement) => statement.fmt(f),
        }
    }
}

impl fmt::Display for CacheStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warm(scope) => write!(f, "WARM CACHE FOR {scope}"),
            Self::Drop(Some(scope)) => write!(f, "DROP CACHE FOR {scope}"),
            Self::Drop(None) => f.write_str("DROP CACHE"),
        }
    }
}

impl fmt::Display for CacheScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "TABLE {name}"),
            Self::Cube(name) => write!(f, "CUBE {name}"),
        }
    }
}

impl fmt::Display for Nyala {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateCube(create) => create.fmt(f),
            Self::BuildCube(build) => build.fmt(f),
            Self::AlterCube(alter) => alter.fmt(f),
            Self::DropSegments(dropped) => dropped.fmt(f),
            Self::DropCube { name, if_exists } => {
                write!(f, "DROP CUBE {}{name}", if *if_exists { "IF EXISTS " } else { "" })
            }
            Self::KillQuery { id, node: None } => write!(f, "KILL QUERY {id}"),
            Self::KillQuery { id, node: Some(node) } => {
                write!(f, "KILL QUERY {id} ON NODE '{}'", node.replace('\'', "''"))
            }
            Self::ShowCubes => f.write_str("SHOW CUBES"),
            Self::ShowCreateCube { name } => write!(f, "SHOW CREATE CUBE {name}"),
            Self::ShowSegments { cube: None } => f.write_str("SHOW SEGMENTS"),
            Self::ShowSegments { cube: Some(cube) } => write!(f, "SHOW SEGMENTS FOR {cube}"),
            Self::ShowCuboids { cube: None } => f.write_str("SHOW CUBOIDS"),
            Self::ShowCuboids { cube: Some(cube) } => write!(f, "SHOW CUBOIDS FOR {cube}"),
            Self::ShowJobs => f.write_str("SHOW JOBS"),
            Self::CancelJob(job) => write!(f, "CANCEL JOB {job}"),
            Self::ShowQueryHistory => f.write_str("SHOW QUERY HISTORY"),
            Self::AnalyzeCube { name } => write!(f, "ANALYZE CUBE {name}"),
            Self::Cache(statement) => statement.fmt(f),
            Self::RecommendCube(recommend) => recommend.fmt(f),
            Self::Role(statement) => statement.fmt(f),
            Self::Live(statement) => statement.fmt(f),
            Self::Relation(statement) => statement.fmt(f),
            Self::Unneeded(statement) => statement.fmt(f),
            Self::Backup(backup) => backup.fmt(f),
            Self::CopyTo(copy) => copy.fmt(f),
            Self::CheckCube { name, sample: None } => write!(f, "CHECK CUBE {name}"),
            Self::CheckCube { name, sample: Some(sample) } => write!(f, "CHECK CUBE {name} SAMPLE {sample}"),
        }
    }
}

/// `BACKUP TO 'folder' [BASE 'folder']`
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    /// The folder of the backup.
    pub target: String,
    /// An earlier backup, with which the new one shares files.
    pub base: Option<String>,
}

impl fmt::Display for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        write!(f, "BACKUP TO {}", quoted(&self.target))?;
        self.base.iter().try_for_each(|base| write!(f, " BASE {}", quoted(base)))
    }
}
