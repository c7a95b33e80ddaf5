//! Statements about users, groups and grants.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use nyala_model::access::Privilege;

use super::words::{expect_word, expected, from_parser, parse_name, peek_word, skip};
use crate::error::{ErrorKind, QueryError, Result};

/// A statement about roles. Passwords in it are never displayed.
#[derive(Debug, Clone)]
pub enum RoleStatement {
    /// `CREATE USER | ROLE [IF NOT EXISTS] name [WITH] options`
    Create {
        /// The role.
        name: Ident,
        /// Whether an existing role of this name is no error.
        if_not_exists: bool,
        /// Its rights.
        options: RoleOptions,
    },
    /// `ALTER USER | ROLE name [WITH] options`
    Alter {
        /// The role.
        name: Ident,
        /// The changes.
        options: RoleOptions,
    },
    /// `DROP USER | ROLE [IF EXISTS] name`
    Drop {
        /// The role.
        name: Ident,
        /// Whether a missing one is no error.
        if_exists: bool,
    },
    /// `GRANT … TO …`
    Grant {
        /// Privileges or membership.
        what: GrantWhat,
        /// The roles that get them.
        to: Vec<Ident>,
    },
    /// `REVOKE … FROM …`
    Revoke {
        /// Privileges or membership.
        what: GrantWhat,
        /// The roles that lose them.
        from: Vec<Ident>,
    },
    /// `SHOW ROLES`
    ShowRoles,
    /// `SHOW GRANTS`
    ShowGrants,
}

/// The attributes of a role; absent ones stay as they are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN` or `NOLOGIN`
    pub login: Option<bool>,
    /// `SUPERUSER` or `NOSUPERUSER`
    pub superuser: Option<bool>,
    /// `PASSWORD '…'`, or `PASSWORD NULL` for none
    pub password: Option<Option<String>>,
}

/// The granted or revoked privileges or roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantWhat {
    /// Privileges on objects; without a list, all privileges that apply to the objects.
    Privileges {
        /// The list.
        privileges: Option<Vec<Privilege>>,
        /// The objects.
        on: GrantOn,
    },
    /// Membership in these roles.
    Membership(Vec<Ident>),
}

/// The objects of a privilege.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantOn {
    /// Schemas, with all that is in them.
    Schemas(Vec<Ident>),
    /// The tables of schemas: a grant applies to future tables too, and a revoke to each present one.
    TablesIn(Vec<Ident>),
    /// Tables or cubes.
    Objects(Vec<ObjectName>),
}

impl fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses one of these statements; none, with nothing consumed, for other statements.
pub fn parse_roles(parser: &mut DFParser<'_>, first: &str, second: &str) -> Result<Option<RoleStatement>> {
    let words = match (first, second) {
        ("CREATE" | "ALTER" | "DROP", "USER" | "ROLE") | ("SHOW", "ROLES" | "USERS" | "GRANTS") => 2,
        ("GRANT" | "REVOKE", _) => 1,
        _ => return Ok(None),
    };
    skip(parser, words);
    Ok(Some(match (first, second) {
        ("CREATE", _) => create(parser, second == "USER")?,
        ("ALTER", _) => RoleStatement::Alter { name: ident(parser)?, options: options(parser)? },
        ("DROP", _) => {
            let if_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            RoleStatement::Drop { name: ident(parser)?, if_exists }
        }
        ("GRANT", _) => {
            let what = granted(parser, "TO")?;
            RoleStatement::Grant { what, to: idents(parser)? }
        }
        ("REVOKE", _) => {
            let what = granted(parser, "FROM")?;
            RoleStatement::Revoke { what, from: idents(parser)? }
        }
        (_, "GRANTS") => RoleStatement::ShowGrants,
        _ => RoleStatement::ShowRoles,
    }))
}

/// A user may connect unless the statement says otherwise; a role may not.
fn create(parser: &mut DFParser<'_>, user: bool) -> Result<RoleStatement> {
    let if_not_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = ident(parser)?;
    let mut options = options(parser)?;
    options.login.get_or_insert(user);
    Ok(RoleStatement::Create { name, if_not_exists, options })
}

fn options(parser: &mut DFParser<'_>) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    if peek_word(parser, 0).as_deref() == Some("WITH") {
        skip(parser, 1);
    }
    while let Some(word) = peek_word(parser, 0) {
        skip(parser, 1);
        match word.as_str() {
            "LOGIN" | "NOLOGIN" => options.login = Some(word == "LOGIN"),
            "SUPERUSER" | "NOSUPERUSER" => options.superuser = Some(word == "SUPERUSER"),
            "ENCRYPTED" => {}
            "PASSWORD" => options.password = Some(password(parser)?),
            other => {
                let message = format!("option `{other}` of a role is not supported");
                return Err(QueryError::new(ErrorKind::Unsupported, message)
                    .hint("there are LOGIN, SUPERUSER, their opposites with NO, and PASSWORD '…'"));
            }
        }
    }
    Ok(options)
}

fn password(parser: &mut DFParser<'_>) -> Result<Option<String>> {
    if parser.parser.parse_keyword(Keyword::NULL) {
        return Ok(None);
    }
    match parser.parser.next_token().token {
        Token::SingleQuotedString(password) | Token::EscapedStringLiteral(password) => Ok(Some(password)),
        // The token is not shown: it may be a password without quotes.
        _ => Err(QueryError::new(ErrorKind::Syntax, "expected a quoted text after `PASSWORD`")),
    }
}

/// The part before the word `before`, TO or FROM, which is consumed too.
fn granted(parser: &mut DFParser<'_>, before: &str) -> Result<GrantWhat> {
    let all = parser.parser.parse_keyword(Keyword::ALL);
    let names = if all {
        // `PRIVILEGES` may be left out.
        let _ = parser.parser.parse_keyword(Keyword::PRIVILEGES);
        Vec::new()
    } else {
        idents(parser)?
    };
    let what = if parser.parser.parse_keyword(Keyword::ON) {
        let on = grant_on(parser)?;
        // USAGE on a schema is skipped, because every role may use a schema.
        let is_said =
            |name: &&Ident| matches!(on, GrantOn::Objects(_)) || !name.value.eq_ignore_ascii_case("usage");
        let privileges = names.iter().filter(is_said).map(privilege).collect::<Result<_>>()?;
        GrantWhat::Privileges { privileges: (!all).then_some(privileges), on }
    } else if all {
        return Err(expected(parser, "`ON` and what the privileges are about"));
    } else {
        GrantWhat::Membership(names)
    };
    expect_word(parser, before)?;
    Ok(what)
}

fn privilege(name: &Ident) -> Result<Privilege> {
    Privilege::ALL.into_iter().find(|known| known.word().eq_ignore_ascii_case(&name.value)).ok_or_else(|| {
        QueryError::new(ErrorKind::Unsupported, format!("there is no privilege `{}`", name.value))
            .hint(format!("there are {} and ALL", Privilege::ALL.map(Privilege::word).join(", ")))
    })
}

fn grant_on(parser: &mut DFParser<'_>) -> Result<GrantOn> {
    // These are PostgreSQL's words for the present tables of a schema; here they include future ones, too.
    let all_in = [Keyword::ALL, Keyword::TABLES, Keyword::IN, Keyword::SCHEMA];
    if parser.parser.parse_keywords(&all_in) {
        return idents(parser).map(GrantOn::TablesIn);
    }
    if parser.parser.parse_keyword(Keyword::SCHEMA) {
        return idents(parser).map(GrantOn::Schemas);
    }
    if matches!(peek_word(parser, 0).as_deref(), Some("TABLE" | "CUBE")) {
        skip(parser, 1);
    }
    let mut names = vec![parse_name(parser)?];
    while parser.parser.consume_token(&Token::Comma) {
        names.push(parse_name(parser)?);
    }
    Ok(GrantOn::Objects(names))
}

fn ident(parser: &mut DFParser<'_>) -> Result<Ident> {
    parser.parser.parse_identifier().map_err(from_parser)
}

fn idents(parser: &mut DFParser<'_>) -> Result<Vec<Ident>> {
    parser.parser.parse_comma_separated(|parser| parser.parse_identifier()).map_err(from_parser)
}

impl fmt::Display for RoleStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, if_not_exists, options } => {
                let condition = if *if_not_exists { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE ROLE {condition}{name}{options}")
            }
            Self::Alter { name, options } => write!(f, "ALTER ROLE {name}{options}"),
            Self::Drop { name, if_exists } => {
                write!(f, "DROP ROLE {}{name}", if *if_exists { "IF EXISTS " } else { "" })
            }
            Self::Grant { what, to } => write!(f, "GRANT {what} TO {}", list(to)),
            Self::Revoke { what, from } => write!(f, "REVOKE {what} FROM {}", list(from)),
            Self::ShowRoles => f.write_str("SHOW ROLES"),
            Self::ShowGrants => f.write_str("SHOW GRANTS"),
        }
    }
}

impl fmt::Display for RoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on: Option<bool>, word: &str| match on {
            Some(true) => format!(" {word}"),
            Some(false) => format!(" NO{word}"),
            None => String::new(),
        };
        write!(f, "{}{}", switch(self.login, "LOGIN"), switch(self.superuser, "SUPERUSER"))?;
        match &self.password {
            Some(Some(_)) => f.write_str(" PASSWORD '********'"),
            Some(None) => f.write_str(" PASSWORD NULL"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for GrantWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Membership(roles) => f.write_str(&list(roles)),
            Self::Privileges { privileges, on } => {
                let words =
                    privileges.as_ref().map(|all| all.iter().map(|one| one.word()).collect::<Vec<_>>());
                write!(f, "{} ON ", words.map_or_else(|| "ALL".to_owned(), |words| words.join(", ")))?;
                match on {
                    GrantOn::Schemas(names) => write!(f, "SCHEMA {}", list(names)),
                    GrantOn::TablesIn(names) => write!(f, "ALL TABLES IN SCHEMA {}", list(names)),
                    GrantOn::Objects(names) => f.write_str(&list(names)),
                }
            }
        }
    }
}

fn list(names: &[impl fmt::Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
