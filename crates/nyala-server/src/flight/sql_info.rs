//! What clients ask of a server in general. The JDBC driver fails in its metadata if one of these numbers is missing.

use std::collections::HashMap;

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};

/// The answer for limits that are not known: only memory bounds these.
const UNLIMITED: i64 = 0;
/// Longest name, in bytes, as `information_schema` tells it.
const NAME_BYTES: i64 = 63;

/// Texts by their number in `SqlInfo`.
const TEXTS: &[(u32, &str)] = &[
    (0, "Nyala"),
    (1, env!("CARGO_PKG_VERSION")),
    (2, "1.5"),
    (504, "\""),
    (513, "\\"),
    (514, "$"),
    (529, "schema"),
    (530, "procedure"),
    (531, "database"),
];

const SWITCHES: &[(u32, bool)] = &[
    (3, false),   // read only
    (4, true),    // SQL
    (5, false),   // Substrait
    (9, true),    // cancellation
    (10, true),   // bulk ingestion
    (11, false),  // in transactions
    (500, false), // CREATE DATABASE
    (501, true),  // CREATE SCHEMA
    (502, true),  // CREATE TABLE
    (506, false), // not every table is readable by everyone
    (515, true),  // column aliases
    (516, true),  // null and anything is null
    (518, true),  // aliases of tables
    (519, false), // which must differ from their names
    (520, true),  // expressions in ORDER BY
    (521, true),  // ORDER BY of what is not selected
    (523, true),  // LIKE … ESCAPE
    (524, true),  // NOT NULL
    (527, false), // foreign keys
    (532, true),  // the database stands before the schema
    (536, false), // SELECT … FOR UPDATE
    (537, false), // stored procedures
    (539, true),  // correlated subqueries
    (556, true),  // the longest row includes large values
    (563, false), // transactions
    (565, false), // a definition commits
    (566, false), // definitions are ignored in transactions
    (572, true),  // batches of updates
    (573, false), // savepoints
    (574, false), // named parameters
    (575, false), // locators update a copy
    (576, false), // stored functions by CALL
];

/// Numbers that stand for a choice or a set of bits.
const BITS: &[(u32, i32)] = &[
    (8, 0),   // transactions of the protocol: none
    (100, 0), // handles end with their session
    (101, 0),
    (503, 3),      // names are lower case
    (505, 0),      // quoted names are as they are written
    (507, 0),      // nulls are sorted as the largest
    (522, 0b11),   // GROUP BY of anything
    (525, 0b111),  // ODBC's grammars
    (526, 0b11),   // SQL-92 entry and intermediate
    (528, 0b110),  // outer joins, limited and full
    (533, 0b100),  // schemas in grants
    (534, 0),      // databases nowhere
    (535, 0),      // no positioned updates
    (538, 0b1111), // subqueries everywhere
    (540, 0b11),   // UNION and UNION ALL
    (564, 0b1),    // isolation: none
    (567, 0b10),   // results are read forwards
    (568, 0b1),
    (569, 0b1),
    (570, 0),
    (571, 0),
];

const NUMERIC: &[&str] = &[
    "ABS", "ACOS", "ASIN", "ATAN", "ATAN2", "CEIL", "COS", "COT", "DEGREES", "EXP", "FLOOR", "LN", "LOG",
    "LOG10", "MOD", "PI", "POWER", "RADIANS", "RANDOM", "ROUND", "SIGN", "SIN", "SQRT", "TAN", "TRUNC",
];
const TEXT: &[&str] = &[
    "ASCII",
    "CHR",
    "CONCAT",
    "INITCAP",
    "LEFT",
    "LENGTH",
    "LOWER",
    "LPAD",
    "LTRIM",
    "REPEAT",
    "REPLACE",
    "REVERSE",
    "RIGHT",
    "RPAD",
    "RTRIM",
    "SPLIT_PART",
    "STRPOS",
    "SUBSTRING",
    "TRANSLATE",
    "TRIM",
    "UPPER",
];
const SYSTEM: &[&str] = &["CURRENT_SCHEMA", "CURRENT_USER", "VERSION"];
const TIME: &[&str] = &[
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "DATE_PART",
    "DATE_TRUNC",
    "EXTRACT",
    "NOW",
    "TO_CHAR",
];
/// Words that SQL-92 does not have.
const KEYWORDS: &[&str] = &["BUILD", "CUBE", "ILIKE", "LIMIT", "OFFSET", "RECOMMEND", "REFRESH", "RETURNING"];

/// All of `SqlInfo`.
///
/// # Errors
/// Arrow cannot write it.
pub fn sql_info() -> Result<SqlInfoData, FlightError> {
    let mut infos = SqlInfoDataBuilder::new();
    for (number, text) in TEXTS {
        infos.append(*number, *text);
    }
    for (number, switch) in SWITCHES {
        infos.append(*number, *switch);
    }
    for (number, bits) in BITS {
        infos.append(*number, *bits);
    }
    for number in (541..=555_u32).chain(557..=562) {
        let is_name = matches!(number, 543 | 550 | 552 | 553 | 554 | 559 | 561);
        infos.append(number, if is_name { NAME_BYTES } else { UNLIMITED });
    }
    for (number, names) in [(508, KEYWORDS), (509, NUMERIC), (510, TEXT), (511, SYSTEM), (512, TIME)] {
        infos.append(number, names);
    }
    // No cast between types is promised: whether CAST succeeds depends on the value.
    infos.append(517_u32, HashMap::<i32, Vec<i32>>::new());
    infos.build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_number_that_drivers_ask_for_is_told() {
        let all = sql_info().unwrap();
        for number in [0, 1, 3, 8].into_iter().chain(504..=504).chain(508..=541).chain(541..=576) {
            let told = all.record_batch([number]).unwrap().num_rows();
            assert_eq!(told, 1, "{number}");
        }
    }
}
