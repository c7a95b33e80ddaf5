//! LISTEN and NOTIFY, and what functions of a query ask its session to do.

use std::time::Duration;

use nyala_engine::Prepared;
use nyala_model::time_text::parse_time;
use nyala_pg::backends::{Action, BACKENDS, Notification};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::NotificationResponse;

use super::command::Assignment;
use super::setting_commands::setting_of;
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::Connection;
use crate::pgwire::protocol::portal::Plan;

/// Longest name of a channel, in bytes.
const MAX_CHANNEL_BYTES: usize = 63;
/// Longest message, in bytes.
const MAX_PAYLOAD_BYTES: usize = 7999;

impl Connection {
    /// Does what functions of the statement asked for, in order.
    pub async fn perform(&mut self, plan: &Plan) -> Result<(), Stop> {
        for action in self.backend.take_actions() {
            match action {
                Action::Notify { channel, payload } => self.notify(channel, payload)?,
                Action::Sleep(time) => {
                    self.backend.set_asleep(plan.prepared().map(Prepared::text));
                    let slept = self.sleep(time).await;
                    self.backend.set_asleep(None);
                    slept?;
                }
                // Outside of a transaction, a local value ends with the statement.
                Action::Set { local: true, .. } if !self.transaction.is_open() => {}
                Action::Set { name, value, local } => {
                    let name = name.to_ascii_lowercase();
                    self.assign(&[Assignment { name, value, local }]).await?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a notification until the transaction is committed. Equal ones are sent once.
    pub fn notify(&mut self, channel: String, payload: String) -> Result<(), Failure> {
        let refused = |message| Err(Failure::error(sqlstate::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return refused("channel name cannot be empty");
        }
        if channel.len() > MAX_CHANNEL_BYTES {
            return refused("channel name too long");
        }
        if payload.len() > MAX_PAYLOAD_BYTES {
            return refused("payload string too long");
        }
        let notification = Notification { process_id: self.key.process_id, channel, payload };
        if !self.notifications.contains(&notification) {
            self.notifications.push(notification);
        }
        Ok(())
    }

    /// Ends the transaction's notifications and locks: notifications are sent if it is committed, and locks are given back.
    pub fn settle_notifications(&mut self, committed: bool) {
        for notification in self.notifications.drain(..) {
            if committed {
                BACKENDS.notify(&notification);
            }
        }
        if self.backend.take_transaction_locks() {
            BACKENDS.unlock_all(self.key.process_id, Some(true));
        }
    }

    /// Sends the notifications that have come from other sessions.
    pub fn deliver(&mut self) -> Result<(), Stop> {
        for Notification { process_id, channel, payload } in self.backend.take_notifications() {
            let message = NotificationResponse::new(process_id, channel, payload);
            self.output.put(&PgWireBackendMessage::NotificationResponse(message))?;
        }
        Ok(())
    }

    /// Waits for this time, unless the statement is cancelled or has to end before.
    async fn sleep(&mut self, time: Duration) -> Result<(), Stop> {
        let limit = setting_of(self, "statement_timeout").and_then(|value| parse_time(&value));
        let limit = limit.filter(|limit| !limit.is_zero());
        let cancelled =
            |why| Failure::error(sqlstate::QUERY_CANCELED, format!("canceling statement due to {why}"));
        self.output.flush().await?;
        let awaited = limit.map_or(time, |limit| limit.min(time));
        tokio::select! {
            biased;
            () = self.reach.interrupted.notified() => Err(cancelled("user request").into()),
            () = self.input.gone() => Err(Stop::Gone),
            () = tokio::time::sleep(awaited) => match awaited < time {
                true => Err(cancelled("statement timeout").into()),
                false => Ok(()),
            },
        }
    }
}
