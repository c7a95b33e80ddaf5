//! The parser of statements that only Nyala knows: it parses those about cubes, jobs and caches, and calls the parsers of the others.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Statement as SqlStatement};
use datafusion::sql::sqlparser::keywords::Keyword;

use super::alter::{AlterCube, DropSegments, parse_actions, parse_dropped_segments};
use super::ast::{Backup, CacheScope, CacheStatement, Nyala};
use super::balance::balance_chains;
use super::clauses::rewrite_clauses;
use super::cube_statements::{BuildAction, BuildCube, CreateCube, Recommend, RecommendFor};
use super::live::parse_live;
use super::merged_joins::refuse_unmerged_joins;
use super::options::{StatementOption, parse_options};
use super::partition::parse_partition;
use super::relations::parse_relations;
use super::roles::parse_roles;
use super::unneeded::parse_unneeded;
use super::words::{expect_word, expected, from_parser, parse_name, peek_word, skip};
use crate::error::{ErrorKind, QueryError, Result};

/// Parses one of Nyala's statements; none, with nothing consumed, for other statements.
pub fn parse_nyala(parser: &mut DFParser<'_>) -> Result<Option<Nyala>> {
    let words = [peek_word(parser, 0), peek_word(parser, 1)];
    let [first, second] = words.each_ref().map(|word| word.as_deref().unwrap_or_default());
    let statement = match (first, second) {
        ("CREATE", "CUBE") => {
            skip(parser, 2);
            parse_create_cube(parser)?
        }
        ("BUILD", "CUBE") => parse_build(parser, BuildAction::Build)?,
        ("REFRESH", "CUBE") => parse_build(parser, BuildAction::Refresh)?,
        ("MERGE", "CUBE") => parse_build(parser, BuildAction::Merge)?,
        ("ALTER", "CUBE") => {
            skip(parser, 2);
            parse_alter_cube(parser)?
        }
        ("DROP", "CUBE") => {
            skip(parser, 2);
            let if_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            Nyala::DropCube { name: parse_name(parser)?, if_exists }
        }
        ("SHOW", "CUBES") => {
            skip(parser, 2);
            Nyala::ShowCubes
        }
        ("SHOW", "CREATE") if peek_word(parser, 2).as_deref() == Some("CUBE") => {
            skip(parser, 3);
            Nyala::ShowCreateCube { name: parse_name(parser)? }
        }
        ("SHOW", "SEGMENTS") => {
            skip(parser, 2);
            Nyala::ShowSegments { cube: parse_for_name(parser)? }
        }
        ("SHOW", "CUBOIDS") => {
            skip(parser, 2);
            Nyala::ShowCuboids { cube: parse_for_name(parser)? }
        }
        ("SHOW", "JOBS") => {
            skip(parser, 2);
            Nyala::ShowJobs
        }
        ("CANCEL", "JOB") => {
            skip(parser, 2);
            Nyala::CancelJob(parser.parser.parse_literal_uint().map_err(from_parser)?)
        }
        ("SHOW", "QUERY") if peek_word(parser, 2).as_deref() == Some("HISTORY") => {
            skip(parser, 3);
            Nyala::ShowQueryHistory
        }
        ("KILL", "QUERY") => {
            skip(parser, 2);
            let id = parser.parser.parse_literal_uint().map_err(from_parser)?;
            Nyala::KillQuery { id, node: parse_on_node(parser)? }
        }
        ("BACKUP", "TO") => {
            skip(parser, 2);
            Nyala::Backup(parse_backup(parser)?)
        }
        ("CHECK", "CUBE") => {
            skip(parser, 2);
            Nyala::CheckCube { name: parse_name(parser)?, sample: parse_sample(parser)? }
        }
        ("ANALYZE", "CUBE") => {
            skip(parser, 2);
            Nyala::AnalyzeCube { name: parse_name(parser)? }
        }
        ("WARM", "CACHE") => {
            skip(parser, 2);
            let scope = parse_cache_scope(parser)?;
            let scope = scope.ok_or_else(|| expected(parser, "`FOR TABLE …` or `FOR CUBE …`"))?;
            Nyala::Cache(CacheStatement::Warm(scope))
        }
        ("DROP", "CACHE") => {
            skip(parser, 2);
            Nyala::Cache(CacheStatement::Drop(parse_cache_scope(parser)?))
        }
        ("RECOMMEND", "CUBE") => {
            skip(parser, 2);
            let scope = parse_recommend_for(parser)?;
            let with = parser.parser.parse_keyword(Keyword::WITH);
            let options = if with { parse_options(parser)? } else { Vec::new() };
            Nyala::RecommendCube(Recommend { scope, options })
        }
        ("BUILD", _) => return Err(expected(parser, "`CUBE` after `BUILD`")),
        _ => return parse_others(parser, first, second),
    };
    Ok(Some(statement))
}

fn parse_cache_scope(parser: &mut DFParser<'_>) -> Result<Option<CacheScope>> {
    if !parser.parser.parse_keyword(Keyword::FOR) {
        return Ok(None);
    }
    let kind = peek_word(parser, 0).unwrap_or_default();
    let scope = match kind.as_str() {
        "TABLE" => CacheScope::Table,
        "CUBE" => CacheScope::Cube,
        _ => return Err(expected(parser, "`TABLE` or `CUBE`")),
    };
    skip(parser, 1);
    Ok(Some(scope(parse_name(parser)?)))
}

fn parse_others(parser: &mut DFParser<'_>, first: &str, second: &str) -> Result<Option<Nyala>> {
    if let Some(live) = parse_live(parser, first, second)? {
        return Ok(Some(Nyala::Live(Box::new(live))));
    }
    if let Some(relation) = parse_relations(parser, first, second)? {
        return Ok(Some(relation));
    }
    if let Some(unneeded) = parse_unneeded(parser, first, second) {
        return Ok(Some(Nyala::Unneeded(unneeded)));
    }
    Ok(parse_roles(parser, first, second)?.map(|roles| Nyala::Role(Box::new(roles))))
}

fn parse_create_cube(parser: &mut DFParser<'_>) -> Result<Nyala> {
    let if_not_exists = parser.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parse_name(parser)?;
    let partition = parse_partition(parser)?;
    let with = parser.parser.parse_keyword(Keyword::WITH);
    let options = if with { parse_options(parser)? } else { Vec::new() };
    if !parser.parser.parse_keyword(Keyword::AS) {
        return Err(expected(parser, "`AS SELECT …`"));
    }
    let query = parser.parser.parse_query().map_err(from_parser)?;
    let mut statement = SqlStatement::Query(query);
    rewrite_clauses(&mut statement)?;
    refuse_unmerged_joins(&statement)?;
    balance_chains(&mut statement);
    let SqlStatement::Query(query) = statement else {
        return Err(QueryError::internal("a query stopped being one"));
    };
    Ok(Nyala::CreateCube(Box::new(CreateCube { name, if_not_exists, partition, options, query })))
}

fn parse_alter_cube(parser: &mut DFParser<'_>) -> Result<Nyala> {
    let name = parse_name(parser)?;
    let words = [peek_word(parser, 0), peek_word(parser, 1)];
    if words.each_ref().map(|word| word.as_deref().unwrap_or_default()) == ["DROP", "SEGMENTS"] {
        skip(parser, 2);
        let segments = parse_dropped_segments(parser)?;
        return Ok(Nyala::DropSegments(Box::new(DropSegments { name, segments })));
    }
    Ok(Nyala::AlterCube(Box::new(AlterCube { name, actions: parse_actions(parser)? })))
}

/// `FROM value TO value`, if it comes next.
pub fn parse_range(parser: &mut DFParser<'_>) -> Result<Option<(Expr, Expr)>> {
    if !parser.parser.parse_keyword(Keyword::FROM) {
        return Ok(None);
    }
    let from = parser.parser.parse_expr().map_err(from_parser)?;
    if !parser.parser.parse_keyword(Keyword::TO) {
        return Err(expected(parser, "`TO` and the end of the range"));
    }
    Ok(Some((from, parser.parser.parse_expr().map_err(from_parser)?)))
}

fn parse_build(parser: &mut DFParser<'_>, action: BuildAction) -> Result<Nyala> {
    skip(parser, 2);
    let name = parse_name(parser)?;
    let mut options = parse_build_options(parser)?;
    let range = parse_range(parser)?;
    // Options may come last, too, but not after `…::timestamp`, where WITH is a part of the type.
    options.extend(parse_build_options(parser)?);
    Ok(Nyala::BuildCube(Box::new(BuildCube { action, name, waits: waits(&options)?, range })))
}

fn parse_build_options(parser: &mut DFParser<'_>) -> Result<Vec<StatementOption>> {
    if parser.parser.parse_keyword(Keyword::WITH) { parse_options(parser) } else { Ok(Vec::new()) }
}

/// The option `wait` of a build.
fn waits(options: &[StatementOption]) -> Result<bool> {
    let mut waits = true;
    for StatementOption { name, value } in options {
        if name != "wait" {
            let message = format!("a build has no option `{name}`");
            return Err(QueryError::new(ErrorKind::UndefinedObject, message).hint("there is wait: on or off"));
        }
        waits = match value.to_ascii_lowercase().as_str() {
            "on" => true,
            "off" => false,
            _ => {
                let message = format!("`{value}` is no value of option `wait`");
                return Err(QueryError::new(ErrorKind::InvalidParameter, message).hint("use on or off"));
            }
        };
    }
    Ok(waits)
}

fn parse_recommend_for(parser: &mut DFParser<'_>) -> Result<RecommendFor> {
    if !parser.parser.parse_keyword(Keyword::FOR) {
        return Err(expected(parser, "`FOR SCHEMA …` or `FOR TABLE …`"));
    }
    match parser.parser.parse_one_of_keywords(&[Keyword::SCHEMA, Keyword::TABLE]) {
        Some(Keyword::SCHEMA) => {
            Ok(RecommendFor::Schema(parser.parser.parse_identifier().map_err(from_parser)?))
        }
        Some(_) => Ok(RecommendFor::Table(parse_name(parser)?)),
        None => Err(expected(parser, "`SCHEMA` or `TABLE`")),
    }
}

fn parse_backup(parser: &mut DFParser<'_>) -> Result<Backup> {
    let target = parser.parser.parse_literal_string().map_err(from_parser)?;
    let mut base = None;
    if peek_word(parser, 0).as_deref() == Some("BASE") {
        skip(parser, 1);
        base = Some(parser.parser.parse_literal_string().map_err(from_parser)?);
    }
    Ok(Backup { target, base })
}

fn parse_on_node(parser: &mut DFParser<'_>) -> Result<Option<String>> {
    if !parser.parser.parse_keyword(Keyword::ON) {
        return Ok(None);
    }
    expect_word(parser, "NODE")?;
    parser.parser.parse_literal_string().map(Some).map_err(from_parser)
}

fn parse_sample(parser: &mut DFParser<'_>) -> Result<Option<u64>> {
    if peek_word(parser, 0).as_deref() != Some("SAMPLE") {
        return Ok(None);
    }
    skip(parser, 1);
    parser.parser.parse_literal_uint().map(Some).map_err(from_parser)
}

fn parse_for_name(parser: &mut DFParser<'_>) -> Result<Option<ObjectName>> {
    let named = parser.parser.parse_one_of_keywords(&[Keyword::FOR, Keyword::FROM, Keyword::IN]);
    named.map(|_| parse_name(parser)).transpose()
}
