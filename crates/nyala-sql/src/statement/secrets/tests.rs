//! Statements, URLs, broken texts and errors, as logs show them.
#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn statements_that_name_secrets_are_shown_without_literals() {
    let check = |sql: &str, shown: &str| assert_eq!(without_secrets(sql), shown, "{sql}");
    check("CREATE USER \"ann\" PASSWORD 'x y'", "CREATE USER \"ann\" PASSWORD '********'");
    check("alter user a passWord E'a\\'b' -- 'c'\n;", "alter user a passWord E'********'  \n;");
    check("ALTER USER a PASSWORD $q$it's$q$ /* or 'b' */", "ALTER USER a PASSWORD '********'  ");
    check("SELECT U&'\\0441' AS user_password", "SELECT U&'********' AS user_password");
    check(
        "SELECT 'a''b', 1 FROM t WHERE Token = 'c'",
        "SELECT '********', 1 FROM t WHERE Token = '********'",
    );
    check("OPTIONS ('aws.secret_access_key' 'k')", "OPTIONS ('********' '********')");
    check("EXPLAIN SELECT * FROM t -- my key: 'k'", "EXPLAIN SELECT * FROM t  ");
    check("SELECT 'a' FROM t WHERE d_datekey = 'b'", "SELECT 'a' FROM t WHERE d_datekey = 'b'");
    check("SET password = hunter2; SELECT 1", "SET password = ********; SELECT 1");
    check("SET my_secret TO \"a\", \"b\"", "SET my_secret TO \"********\", \"b\"");
    check("SELECT password, a FROM t WHERE pwd = 'b'", "SELECT password, a FROM t WHERE pwd = '********'");
    check("SELECT 'MONKEY', 'a' FROM tokenised", "SELECT 'MONKEY', 'a' FROM tokenised");
}

#[test]
fn urls_are_shown_without_credentials() {
    let check = |sql: &str, shown: &str| assert_eq!(without_secrets(sql), shown, "{sql}");
    check("SELECT 's3://k:s/e@bucket/a'", "SELECT 's3://********@bucket/a'");
    check("COPY t FROM 's3://k:s''e@b/a.csv'", "COPY t FROM 's3://********@b/a.csv'");
    check(
        "COPY t FROM 'https://h/a?sig=s&b=c' (FORMAT csv)",
        "COPY t FROM 'https://h/a?********' (FORMAT csv)",
    );
    check("FROM s3://k:s@b/a, $$x://u@y$$", "FROM s3://********@b/a, $$x://********@y$$");
    check("SELECT $x$http://h/a?b=it's$x$", "SELECT $x$http://h/a?********$x$");
    check("SELECT 's3://k:s?x/@b/a'", "SELECT 's3://********@b/a'");
    check("SELECT 'http://plain/a'", "SELECT 'http://plain/a'");
}

#[test]
fn texts_that_cannot_be_parsed_end_where_a_secret_is_named() {
    let check = |sql: &str, shown: &str| assert_eq!(unparsed_without_secrets(sql), shown, "{sql}");
    check("EXPLAIN ALTER USER a PASSWORD hunter2", "EXPLAIN ALTER USER a PASSWORD ********");
    check("CREATE USER a IDENTIFIED BY \"hunter2\"", "CREATE USER a IDENTIFIED ********");
    check("SELECT 'a' WHERE password = 'b", "SELECT '********' WHERE password ********");
    check("SELECT 'a", "SELECT '********'");
    check("SELECT $x$a$y$", "SELECT '********'");
    check("SELECT \"a", "SELECT '********'");
    check("SET token = 'a' \"b", "SET token = '********' '********'");
    check("SELECT /* 'a", "SELECT '********'");
    check("SELEC 'a'", "SELEC 'a'");
    check(
        "CREATE TALE t (a INT PRIMARY KEY DEFAULT 'b')",
        "CREATE TALE t (a INT PRIMARY KEY DEFAULT '********')",
    );
}

#[test]
fn what_is_cut_off_counts() {
    let sql = "INSERT INTO t VALUES ('hunter2', 1, 2) RETURNING password";
    assert_eq!(LoggedText::of(sql, 32).to_string(), "INSERT INTO t VALUES ('********',");
    assert_eq!(LoggedText::of("SELECT 'a', 'b'", 10).to_string(), "SELECT 'a'");
    // A literal that was cut is not closed.
    assert_eq!(LoggedText::of("SELECT 'abc'", 10).to_string(), "SELECT '********'");
}

#[test]
fn errors_are_shown_without_what_they_quote() {
    let error = |kind, message: &str| QueryError::new(kind, message);
    let text = LoggedText::of("SELECT CAST('hunter2' AS INT) AS password", 4096);
    let cast = error(ErrorKind::InvalidValue, "cannot cast string 'hunter2' to value of `Int32`");
    assert_eq!(text.error(&cast), "cannot cast string '********' to value of `********`");
    let syntax = error(ErrorKind::Syntax, "expected end of statement, found: hunter2");
    assert!(!text.error(&syntax).contains("hunter2"));
    assert_eq!(LoggedText::of("SELECT 'a'", 4096).error(&cast), cast.message);
    assert_eq!(hide_values("it's `a` and 'b'c' and \"d"), "it'********' and ********");
    assert_eq!(hide_values("nothing"), "nothing");
}
