#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use nyala_model::config::QueryConfig;

use super::*;
use crate::statement::CubeGrouping;

fn parse_text(sql: &str) -> Result<Vec<Statement>> {
    parse(sql, &StatementLimits::from(&QueryConfig::default()))
}

fn check(sql: &str, expected: &str) {
    let statements = parse_text(sql).unwrap();
    let shown: Vec<String> = statements.iter().map(ToString::to_string).collect();
    assert_eq!(shown.join("; "), expected);
}

fn check_error(sql: &str, kind: ErrorKind, words: &str) {
    let error = parse_text(sql).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(words), "{error}");
}

#[test]
fn roles_and_grants_are_read_and_passwords_never_shown() {
    check("create user Ann password 'secret'", "CREATE ROLE Ann LOGIN PASSWORD '********'");
    check("CREATE ROLE IF NOT EXISTS \"R\"", "CREATE ROLE IF NOT EXISTS \"R\" NOLOGIN");
    check("alter user a with encrypted password null nosuperuser", "ALTER ROLE a NOSUPERUSER PASSWORD NULL");
    check("drop user if exists a; show users; show grants", "DROP ROLE IF EXISTS a; SHOW ROLES; SHOW GRANTS");
    check("grant select, build on s.t, c to a, b", "GRANT SELECT, BUILD ON s.t, c TO a, b");
    check(
        "grant select on table t to a; grant build on cube c to a",
        "GRANT SELECT ON t TO a; GRANT BUILD ON c TO a",
    );
    check("revoke all privileges on schema s from a", "REVOKE ALL ON SCHEMA s FROM a");
    check("grant all on all tables in schema s to a", "GRANT ALL ON ALL TABLES IN SCHEMA s TO a");
    check("grant readers to ann", "GRANT readers TO ann");
    check("grant insert, update, delete on t to a", "GRANT INSERT, UPDATE, DELETE ON t TO a");
    check_error("grant references on t to a", ErrorKind::Unsupported, "no privilege `references`");
    check_error("grant select on t for a", ErrorKind::Syntax, "expected `TO`");
    check_error("grant all to a", ErrorKind::Syntax, "expected `ON`");
    check_error("create user a createdb", ErrorKind::Unsupported, "`CREATEDB`");
    let error = parse_text("create user a password hunter2").unwrap_err();
    assert!(!error.message.contains("hunter2"), "{error}");
    let debugged = format!("{:?}", parse_text("create user a password 'hunter2'").unwrap());
    assert!(!debugged.contains("hunter2"), "{debugged}");
}

#[test]
fn our_statements_and_others_side_by_side() {
    check("", "");
    check(" ; ;", "");
    check("select 1;; build cube a.b", "SELECT 1; BUILD CUBE a.b");
    check("Drop Cube if exists x", "DROP CUBE IF EXISTS x");
    check("show cubes; show segments for c; show jobs", "SHOW CUBES; SHOW SEGMENTS FOR c; SHOW JOBS");
    check(
        "create cube if not exists c as select a, sum(b) from t group by a",
        "CREATE CUBE IF NOT EXISTS c AS SELECT a, sum(b) FROM t GROUP BY a",
    );
    check("select ';' as x", "SELECT ';' AS x");
    check("show create cube s.\"C\"", "SHOW CREATE CUBE s.\"C\"");
    check(
        "build cube c with (Wait = 'OFF') from '2024-01-01'::timestamp to x; merge cube c with (wait = on)",
        "BUILD CUBE c WITH (wait = off) FROM '2024-01-01'::TIMESTAMP TO x; MERGE CUBE c",
    );
    check("refresh cube c from 1 to 2 with (wait = off)", "REFRESH CUBE c WITH (wait = off) FROM 1 TO 2");
    check("show query history", "SHOW QUERY HISTORY");
    check("analyze cube a.b", "ANALYZE CUBE a.b");
    check(
        "warm cache for table s.t; Warm Cache for Cube c",
        "WARM CACHE FOR TABLE s.t; WARM CACHE FOR CUBE c",
    );
    check("drop cache; drop cache for table t", "DROP CACHE; DROP CACHE FOR TABLE t");
    check(
        "recommend cube for schema \"S\"; recommend cube for table s.t",
        "RECOMMEND CUBE FOR SCHEMA \"S\"; RECOMMEND CUBE FOR TABLE s.t",
    );
    check(
        "recommend cube for table t with (Cubes = 3, bytes = '1 GB')",
        "RECOMMEND CUBE FOR TABLE t WITH (cubes = '3', bytes = '1 GB')",
    );
    check(
        "alter cube s.c add dimension lower(a) as b, grouping set (b, x), drop measure sum(y), grouping set ()",
        "ALTER CUBE s.c ADD DIMENSION lower(a) AS b, ADD GROUPING SET (b, x), DROP MEASURE sum(y), \
         DROP GROUPING SET ()",
    );
    check(
        "create cube c with (Retention = '2 years', auto_refresh = on) as select sum(b) from t",
        "CREATE CUBE c WITH (retention = '2 years', auto_refresh = 'on') AS SELECT sum(b) FROM t",
    );
    check("alter cube c set (retention = 100)", "ALTER CUBE c SET (retention = '100')");
    check(
        "alter cube s.c drop segments; Alter Cube c Drop Segments From date '2024-01-01' To x",
        "ALTER CUBE s.c DROP SEGMENTS; ALTER CUBE c DROP SEGMENTS FROM DATE '2024-01-01' TO x",
    );
    check("alter cube c drop segments 7,8", "ALTER CUBE c DROP SEGMENTS 7, 8");
    check("cancel job 7", "CANCEL JOB 7");
    check("kill query 7; Kill Query 7 On Node 'a''b'", "KILL QUERY 7; KILL QUERY 7 ON NODE 'a''b'");
    check("backup to '/a' ; Backup To '/it''s' base '/b'", "BACKUP TO '/a'; BACKUP TO '/it''s' BASE '/b'");
    check("check cube a.b; Check Cube c sample 7", "CHECK CUBE a.b; CHECK CUBE c SAMPLE 7");
}

#[test]
fn mistakes_name_what_was_expected() {
    check_error("build table x", ErrorKind::Syntax, "expected `CUBE` after `BUILD`");
    check_error("create cube c select 1", ErrorKind::Syntax, "expected `AS SELECT …`");
    check_error("build cube c with (weight = off)", ErrorKind::UndefinedObject, "no option `weight`");
    check_error("build cube c with (wait = later)", ErrorKind::InvalidParameter, "`later` is no value");
    check_error("show create cube", ErrorKind::Syntax, "identifier");
    check_error("show jobs now", ErrorKind::Syntax, "expected end of statement, found `now`");
    check_error("warm cache", ErrorKind::Syntax, "`FOR TABLE …` or `FOR CUBE …`");
    check_error("drop cache for t", ErrorKind::Syntax, "`TABLE` or `CUBE`");
    check_error("recommend cube", ErrorKind::Syntax, "`FOR SCHEMA …` or `FOR TABLE …`");
    check_error("recommend cube for all", ErrorKind::Syntax, "`SCHEMA` or `TABLE`");
    check_error("check cube c sample", ErrorKind::Syntax, "literal int");
    check_error("check cube c sample -1", ErrorKind::Syntax, "literal int");
    check_error("alter cube c", ErrorKind::Syntax, "`ADD`, `DROP` or `SET`");
    check_error("alter cube c measure x", ErrorKind::Syntax, "`ADD`, `DROP` or `SET`");
    check_error("alter cube c add column x", ErrorKind::Syntax, "`DIMENSION`, `MEASURE` or `GROUPING SET`");
    check_error("alter cube c add grouping set a", ErrorKind::Syntax, "(");
    check_error("alter cube c drop dimension a as b", ErrorKind::Syntax, "expected end of statement");
    check_error("alter cube c drop segments, measure x", ErrorKind::Syntax, "expected end of statement");
    check_error("alter cube c drop segments from 1", ErrorKind::Syntax, "`TO` and the end of the range");
    check_error("alter cube c drop segments 7,", ErrorKind::Syntax, "literal int");
    check_error("alter cube c drop segments -7", ErrorKind::Syntax, "expected end of statement");
    check_error("alter cube c set (retention)", ErrorKind::Syntax, "=");
    check_error("alter cube c set (retention = )", ErrorKind::Syntax, "a value in single quotes");
    check_error("cancel job x", ErrorKind::Syntax, "literal int");
    check_error("kill query 7 on", ErrorKind::Syntax, "expected `NODE`");
    check_error("kill query 7 on node 8", ErrorKind::Syntax, "literal string");
    check_error("selec 1", ErrorKind::Syntax, "selec");
}

#[test]
fn monstrous_statements_are_refused_before_they_are_parsed() {
    let chain = |op: &str, term: &str, n: usize| format!("select {}", vec![term; n].join(op));
    check_error(&chain("+", "1", 100_000), ErrorKind::LimitExceeded, "chain of more than 250 operators");
    check_error(&chain(" or ", "a=0", 50_000), ErrorKind::LimitExceeded, "2000 AND or OR terms");
    check_error(
        &vec!["select 1"; 50_000].join(" union all "),
        ErrorKind::LimitExceeded,
        "more than 500 SELECTs",
    );
    check_error(&"(".repeat(100_000), ErrorKind::LimitExceeded, "brackets deeper");
    check_error(&format!("select {}1", "- ".repeat(90_000)), ErrorKind::LimitExceeded, "operators");
    check_error(&format!("select {}1", "not ".repeat(90_000)), ErrorKind::LimitExceeded, "operators");
    check_error(&"x".repeat(100 << 20), ErrorKind::LimitExceeded, "104857600 bytes");
    assert!(parse_text(&format!("select {}", vec!["1"; 1664].join(","))).is_ok());
}

#[test]
fn long_chains_are_balanced_and_keep_their_order() {
    let terms: Vec<String> = (0..1000).map(|i| format!("a = {i}")).collect();
    let statements = parse_text(&format!("SELECT 1 WHERE {}", terms.join(" OR "))).unwrap();
    assert!(statements[0].to_string().contains("a = 1 OR a = 2 OR a = 3"));
    let SqlStatement::Query(query) = statements[0].ast().unwrap() else { panic!("not a query") };
    assert!(depth_of(query.body.as_select().unwrap().selection.as_ref().unwrap()) < 16);
}

fn depth_of(expr: &datafusion::sql::sqlparser::ast::Expr) -> usize {
    match expr {
        datafusion::sql::sqlparser::ast::Expr::BinaryOp { left, right, .. } => {
            1 + depth_of(left).max(depth_of(right))
        }
        _ => 1,
    }
}

fn grouping(group_by: &str) -> Result<CubeGrouping> {
    let statements =
        parse_text(&format!("create cube c as select count(*) from t group by {group_by}")).unwrap();
    let Kind::Nyala(Nyala::CreateCube(create)) = &statements[0].kind else { panic!("not a cube") };
    CubeGrouping::expand(&create.query)
}

fn check_sets(group_by: &str, expected: &[&[usize]]) {
    let mut found: Vec<Vec<usize>> =
        grouping(group_by).unwrap().sets.iter().map(|set| set.iter().collect()).collect();
    found.sort();
    let mut expected: Vec<Vec<usize>> = expected.iter().map(|set| set.to_vec()).collect();
    expected.sort();
    assert_eq!(found, expected, "{group_by}");
}

#[test]
fn grouping_is_the_sql_standard() {
    check_sets("a", &[&[0]]);
    check_sets("a, b", &[&[0, 1]]);
    check_sets("rollup (a, b)", &[&[0, 1], &[0], &[]]);
    check_sets("cube (a, b)", &[&[0, 1], &[0], &[1], &[]]);
    check_sets("cube ((a, b), c)", &[&[0, 1, 2], &[0, 1], &[2], &[]]);
    check_sets("a, rollup (b, c)", &[&[0, 1, 2], &[0, 1], &[0]]);
    check_sets("rollup (a), rollup (b)", &[&[0, 1], &[0], &[1], &[]]);
    check_sets("grouping sets ((a, b), (a), ())", &[&[0, 1], &[0], &[]]);
    check_sets("a, grouping sets ((b), (a, b), (c))", &[&[0, 1], &[0, 2]]);
}

#[test]
fn too_many_cuboids_are_refused() {
    let many: Vec<String> = (0..13).map(|i| format!("d{i}")).collect();
    assert_eq!(grouping(&format!("cube ({})", many.join(","))).unwrap_err().kind, ErrorKind::LimitExceeded);
    let all: Vec<String> = (0..65).map(|i| format!("d{i}")).collect();
    assert_eq!(grouping(&all.join(",")).unwrap_err().kind, ErrorKind::LimitExceeded);
}

#[test]
fn the_beginning_of_a_text_ends_between_two_letters() {
    let check = |sql: &str, bytes, expected: &str| {
        assert_eq!(parse_text(sql).unwrap()[0].beginning(bytes), expected, "{sql}");
    };
    check("select 'größer'", 100, "select 'größer'");
    check("select 'größer'", 11, "select 'gr");
    // Statements other than queries are shown by `Display`.
    check("delete  from t", 100, "DELETE FROM t");
    check("insert into t values (1), (2)", 13, "INSERT INTO t");
    check("create user a password 'secret'", 100, "CREATE ROLE a LOGIN PASSWORD '********'");
}

#[test]
fn what_is_distinct_ends_where_and_begins() {
    for (sql, read) in [
        ("a IS DISTINCT FROM 1 AND b", "(a IS DISTINCT FROM 1) AND (b)"),
        ("a IS NOT DISTINCT FROM 1 OR b AND c", "(a IS NOT DISTINCT FROM 1) OR ((b) AND (c))"),
        ("p AND a IS DISTINCT FROM 1 + 2 OR b", "((p) AND (a IS DISTINCT FROM (1 + 2))) OR (b)"),
        ("NOT a IS DISTINCT FROM b = c AND d", "(NOT (a IS DISTINCT FROM (b = c))) AND (d)"),
        ("a IS DISTINCT FROM (1 AND b)", "a IS DISTINCT FROM (1 AND b)"),
    ] {
        let without = |sql: &str| {
            let plan = parse_text(&format!("SELECT 1 WHERE {sql}")).unwrap();
            let SqlStatement::Query(query) = plan[0].ast().unwrap() else { panic!("not a query") };
            bracketed(query.body.as_select().unwrap().selection.as_ref().unwrap())
        };
        assert_eq!(without(sql), without(read), "{sql}");
    }
}

/// The expression with brackets around each operand, instead of the written ones.
fn bracketed(expr: &datafusion::sql::sqlparser::ast::Expr) -> String {
    use datafusion::sql::sqlparser::ast::Expr;
    match expr {
        Expr::Nested(inner) => bracketed(inner),
        Expr::BinaryOp { left, op, right } => format!("({} {op} {})", bracketed(left), bracketed(right)),
        Expr::UnaryOp { op, expr } => format!("({op} {})", bracketed(expr)),
        Expr::IsDistinctFrom(left, right) => format!("({} isnt {})", bracketed(left), bracketed(right)),
        Expr::IsNotDistinctFrom(left, right) => format!("({} is {})", bracketed(left), bracketed(right)),
        other => other.to_string(),
    }
}
