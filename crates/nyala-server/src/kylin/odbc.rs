//! Functions of ODBC and Calcite that have other names in Nyala. In a text of Nyala's SQL, `$1` stands for the first argument.

/// Functions within `{fn …}`: name, number of arguments, and Nyala's SQL. Functions that are not listed have the same name.
const FUNCTIONS: [(&str, usize, &str); 20] = [
    ("CHAR", 1, "chr($1)"),
    ("CONCAT", 2, "($1 || $2)"),
    ("CURDATE", 0, "CURRENT_DATE"),
    ("CURRENT_DATE", 0, "CURRENT_DATE"),
    ("CURRENT_TIME", 0, "LOCALTIME"),
    ("CURRENT_TIMESTAMP", 0, "CURRENT_TIMESTAMP"),
    ("CURTIME", 0, "LOCALTIME"),
    ("DATABASE", 0, "current_database()"),
    ("DAYNAME", 1, "trim(to_char($1, 'Day'))"),
    ("IFNULL", 2, "coalesce($1, $2)"),
    ("LCASE", 1, "lower($1)"),
    ("LOCATE", 2, "strpos($2, $1)"),
    ("LOG", 1, "ln($1)"),
    ("MONTHNAME", 1, "trim(to_char($1, 'Month'))"),
    ("RAND", 0, "random()"),
    ("SPACE", 1, "repeat(' ', $1)"),
    ("TRUNCATE", 1, "trunc($1)"),
    ("TRUNCATE", 2, "trunc($1, $2)"),
    ("UCASE", 1, "upper($1)"),
    ("USER", 0, "current_user"),
];

/// Types that CONVERT of ODBC names, with or without `SQL_`.
const TYPES: [(&str, &str); 18] = [
    ("BIGINT", "BIGINT"),
    ("BIT", "BOOLEAN"),
    ("BOOLEAN", "BOOLEAN"),
    ("CHAR", "VARCHAR"),
    ("DATE", "DATE"),
    ("DECIMAL", "NUMERIC"),
    ("DOUBLE", "DOUBLE PRECISION"),
    ("FLOAT", "DOUBLE PRECISION"),
    ("INTEGER", "INTEGER"),
    ("LONGVARCHAR", "VARCHAR"),
    ("NUMERIC", "NUMERIC"),
    ("REAL", "REAL"),
    ("SMALLINT", "SMALLINT"),
    ("TIME", "TIME"),
    ("TIMESTAMP", "TIMESTAMP"),
    ("TINYINT", "SMALLINT"),
    ("VARCHAR", "VARCHAR"),
    ("WVARCHAR", "VARCHAR"),
];

/// Nyala's SQL for a function of ODBC; none if the function has the same name.
pub fn function(name: &str, arguments: usize) -> Option<&'static str> {
    let called = |known: &str, count: usize| known.eq_ignore_ascii_case(name) && count == arguments;
    FUNCTIONS.iter().find(|(known, count, _)| called(known, *count)).map(|(_, _, ours)| *ours)
}

/// The type that the second argument of CONVERT names.
pub fn type_named(name: &str) -> Option<&'static str> {
    let name = name.to_uppercase();
    let name = name.strip_prefix("SQL_").unwrap_or(&name);
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
}

/// A unit of time.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    name: &'static str,
    /// The unit as an interval of SQL.
    pub interval: &'static str,
    length: Length,
}

#[derive(Debug, Clone, Copy)]
enum Length {
    Seconds(u32),
    Months(u32),
}

const UNITS: [Unit; 11] = [
    Unit { name: "SECOND", interval: "1 second", length: Length::Seconds(1) },
    Unit { name: "MINUTE", interval: "1 minute", length: Length::Seconds(60) },
    Unit { name: "HOUR", interval: "1 hour", length: Length::Seconds(3600) },
    Unit { name: "DAY", interval: "1 day", length: Length::Seconds(86_400) },
    Unit { name: "WEEK", interval: "7 days", length: Length::Seconds(604_800) },
    Unit { name: "MONTH", interval: "1 month", length: Length::Months(1) },
    Unit { name: "QUARTER", interval: "3 months", length: Length::Months(3) },
    Unit { name: "YEAR", interval: "1 year", length: Length::Months(12) },
    Unit { name: "DECADE", interval: "10 years", length: Length::Months(120) },
    Unit { name: "CENTURY", interval: "100 years", length: Length::Months(1200) },
    Unit { name: "MILLENNIUM", interval: "1000 years", length: Length::Months(12_000) },
];

impl Unit {
    /// The unit of this name; `SQL_TSI_MONTH`, as ODBC calls it, is `MONTH`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_uppercase();
        let name = name.strip_prefix("SQL_TSI_").unwrap_or(&name);
        UNITS.into_iter().find(|unit| unit.name == name)
    }

    /// Whether the unit consists of months, whose lengths in seconds differ.
    pub fn is_of_months(self) -> bool {
        matches!(self.length, Length::Months(_))
    }

    /// The last begin of a unit that is not after the time `$1`.
    pub fn floor(self) -> String {
        format!("date_trunc('{}', $1)", self.name.to_lowercase())
    }

    /// The first begin of a unit that is not before the time `$1`.
    pub fn ceil(self) -> String {
        let (name, length) = (self.name.to_lowercase(), self.interval);
        // Times of Kylin's clients have no finer fraction than microseconds.
        format!(
            "date_trunc('{name}', CAST($1 AS TIMESTAMP) + INTERVAL '{length}' - INTERVAL '1 microsecond')"
        )
    }

    /// How many whole units lie between the times `$1` and `$2`.
    pub fn difference(self) -> String {
        let (from, to) = ("CAST($1 AS TIMESTAMP)", "CAST($2 AS TIMESTAMP)");
        let (between, length) = match self.length {
            Length::Seconds(length) => {
                (format!("(date_part('epoch', {to}) - date_part('epoch', {from}))"), length)
            }
            Length::Months(length) => {
                let age = format!("age({to}, {from})");
                (format!("(date_part('year', {age}) * 12 + date_part('month', {age}))"), length)
            }
        };
        format!("CAST(trunc({between} / {length}) AS BIGINT)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_apart_by_their_arguments() {
        assert_eq!(function("ucase", 1), Some("upper($1)"));
        assert_eq!(function("TRUNCATE", 2), Some("trunc($1, $2)"));
        assert_eq!((function("UCASE", 2), function("LTRIM", 1)), (None, None));
        assert_eq!(
            (type_named("SQL_WVARCHAR"), type_named("double")),
            (Some("VARCHAR"), Some("DOUBLE PRECISION"))
        );
        assert_eq!(type_named("SQL_GUID"), None);
    }

    #[test]
    fn differences_are_counted_in_seconds_or_in_months() {
        let difference = |name: &str| Unit::named(name).map(Unit::difference);
        assert_eq!(
            difference("SQL_TSI_DAY").as_deref(),
            Some(
                "CAST(trunc((date_part('epoch', CAST($2 AS TIMESTAMP)) - date_part('epoch', CAST($1 AS TIMESTAMP))) / 86400) AS BIGINT)"
            )
        );
        assert!(difference("quarter").is_some_and(|text| text.ends_with(" / 3) AS BIGINT)")));
        assert_eq!(difference("SQL_TSI_FRAC_SECOND"), None);
    }

    #[test]
    fn times_are_rounded_to_begins_of_units() {
        let rounded = |name: &str| Unit::named(name).map(|unit| (unit.floor(), unit.ceil()));
        let expected = (
            "date_trunc('week', $1)",
            "date_trunc('week', CAST($1 AS TIMESTAMP) + INTERVAL '7 days' - INTERVAL '1 microsecond')",
        );
        assert_eq!(rounded("Week"), Some((expected.0.to_owned(), expected.1.to_owned())));
        assert!(rounded("MILLENNIUM").is_some_and(|(floor, _)| floor == "date_trunc('millennium', $1)"));
        assert_eq!(rounded("WEEKS"), None);
    }
}
