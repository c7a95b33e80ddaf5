//! One connection to a server, made anew when it breaks.

use crate::answer::Answer;
use std::time::Duration;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// How long a statement may take before the server ends it, and before the runner calls it a hang.
const STATEMENT_SECONDS: u64 = 20;
const HANG: Duration = Duration::from_secs(60);

pub struct Server {
    config: Config,
    schema: String,
    client: Option<Client>,
}

impl Server {
    /// Logs in, and makes a schema that nothing else is in.
    pub async fn connect(address: &str, schema: &str) -> Result<Server, String> {
        let config = address.parse::<Config>().map_err(|error| format!("`{address}`: {error}"))?;
        let mut server = Server { config, schema: schema.into(), client: None };
        server.set_up(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await?;
        server.set_up(&format!("CREATE SCHEMA {schema}")).await?;
        server.set_up(&format!("SET search_path = {schema}")).await?;
        Ok(server)
    }

    /// Asks one text; a broken connection or a hang is an answer, too.
    pub async fn ask(&mut self, sql: &str) -> Answer {
        if self.client.is_none() {
            if let Err(error) = self.log_in().await {
                return Answer::Broken(error);
            }
            let schema = format!("SET search_path = {}", self.schema);
            if let answer @ (Answer::Broken(_) | Answer::Error { .. }) = self.send(&schema).await {
                return answer;
            }
        }
        self.send(sql).await
    }

    /// Leaves nothing of the file behind.
    pub async fn leave(mut self) {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        self.ask(&drop).await;
    }

    async fn set_up(&mut self, sql: &str) -> Result<(), String> {
        if self.client.is_none() {
            self.log_in().await?;
        }
        match self.send(sql).await {
            Answer::Error { message, .. } | Answer::Broken(message) => Err(format!("`{sql}`: {message}")),
            _ => Ok(()),
        }
    }

    async fn log_in(&mut self) -> Result<(), String> {
        let (client, connection) =
            self.config.connect(NoTls).await.map_err(|error| format!("login: {error}"))?;
        tokio::spawn(connection);
        self.client = Some(client);
        let limit = format!("SET statement_timeout = '{STATEMENT_SECONDS}s'");
        match self.send(&limit).await {
            Answer::Broken(error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, sql: &str) -> Answer {
        let Some(client) = &self.client else { return Answer::Broken("not connected".into()) };
        let answer = tokio::time::timeout(HANG, client.simple_query(sql)).await;
        let answer = match answer {
            Err(_) => Answer::Broken(format!("no answer within {} s", HANG.as_secs())),
            Ok(Ok(messages)) => rows(&messages),
            Ok(Err(error)) => match error.as_db_error() {
                Some(error) => {
                    Answer::Error { code: error.code().code().into(), message: error.message().into() }
                }
                None => Answer::Broken(error.to_string()),
            },
        };
        if matches!(answer, Answer::Broken(_)) {
            self.client = None;
        }
        answer
    }
}

fn rows(messages: &[SimpleQueryMessage]) -> Answer {
    let mut rows = Vec::new();
    let mut columns = None;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(described) => columns = Some(described.len()),
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
            }
            _ => {}
        }
    }
    match columns {
        Some(columns) => Answer::Rows { columns, rows },
        None => Answer::Done,
    }
}
