//! Why there is no profile.

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The process has one timer for it.
    #[error("another profile is being taken")]
    Busy,
    /// This binary, or this start of it, cannot tell.
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
