//! The user and the client of a session.

use nyala_model::NodeId;

use crate::access::Identity;

/// Longest text about a client that is kept, in bytes: the log of statements keeps thousands.
const NAME_BYTES: usize = 256;

/// The user and the client of a session, for logs and limits.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Name of the user.
    pub user: String,
    /// Application name that the client gives.
    pub application: String,
    /// Address of the client.
    pub client: String,
    /// The number that the door gave to the connection; 0 for none.
    pub process_id: i32,
    /// Identity that decides the session's privileges.
    pub identity: Identity,
    /// The dialect of the client's texts, if the door translates them. Texts of different dialects share no plan.
    pub dialect: &'static str,
    /// The node that sent the statement here: it is not sent on. None if a client did.
    pub sent_by: Option<NodeId>,
    /// The number of the statement on that node, by which that node ends it.
    pub sent_as: Option<u64>,
}

impl SessionOptions {
    /// Truncates the texts about the client.
    pub(crate) fn cut(mut self) -> Self {
        for text in [&mut self.user, &mut self.application, &mut self.client] {
            text.truncate(text.floor_char_boundary(NAME_BYTES));
        }
        self
    }
}
