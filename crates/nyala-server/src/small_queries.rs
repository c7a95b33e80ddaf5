//! Small queries of doors about tables, cubes and the server, whose cells are texts.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{Answer, QueryError, Session};

/// The rows of a query.
pub fn rows<'a>(
    session: &'a Session,
    sql: &'a str,
) -> BoxFuture<'a, Result<Vec<Vec<Option<String>>>, QueryError>> {
    async move {
        let Answer::Rows(rows) = session.query(sql).await? else { return Ok(Vec::new()) };
        let mut texts = Vec::new();
        for batch in rows.collect().await? {
            let options = FormatOptions::default();
            let columns: Vec<ArrayFormatter<'_>> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<_, _>>()?;
            for row in 0..batch.num_rows() {
                let cell = |(at, column): (usize, &ArrayFormatter<'_>)| {
                    let is_null = batch.columns().get(at).is_none_or(|column| column.is_null(row));
                    (!is_null).then(|| column.value(row).to_string())
                };
                texts.push(columns.iter().enumerate().map(cell).collect());
            }
        }
        Ok(texts)
    }
    .boxed()
}

/// A name in quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
