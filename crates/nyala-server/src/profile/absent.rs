//! Profiles of a build without the feature `profiling`: there are none.

use super::{CpuRequest, Profile, ProfileError};

const ABSENT: ProfileError = ProfileError::Unavailable {
    reason: "this binary takes no profiles",
    hint: "build it with `cargo build --release --features profiling`",
};

/// Refuses.
///
/// # Errors
/// Always [`ProfileError::Unavailable`].
pub async fn cpu(_: CpuRequest) -> Result<Profile, ProfileError> {
    Err(ABSENT)
}

/// Refuses.
///
/// # Errors
/// Always [`ProfileError::Unavailable`].
pub async fn heap() -> Result<Profile, ProfileError> {
    Err(ABSENT)
}
