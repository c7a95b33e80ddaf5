//! Statements with nothing to do.

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_sql::error::Result;
use nyala_sql::statement::Unneeded;

use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;

impl Command for Unneeded {
    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, _: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        let done = Completion { tag: self.tag.to_owned(), rows: None, notice: Some(self.notice.to_owned()) };
        async move { Ok(Answer::Done(done)) }.boxed()
    }
}
