//! Why there is no profile.

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Another profile is being taken: the process has one timer for profiles.
    #[error("another profile is being taken")]
    Busy,
    /// This binary, or the way it was started, allows no profiles.
    #[error("{reason}")]
    Unavailable {
        /// The reason.
        reason: &'static str,
        /// How to enable profiles.
        hint: &'static str,
    },
    /// The operating system or a library refused.
    #[error("the profile could not be taken: {0}")]
    Failed(String),
}
