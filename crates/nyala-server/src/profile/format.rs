//! Formats of a profile.

use serde::Deserialize;

use super::{Profile, flamegraph, pprof};

/// How a profile is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A flame graph as an SVG picture.
    #[default]
    Svg,
    /// Lines of text, one for each stack.
    Folded,
    /// The format of `go tool pprof` and of profile collectors.
    Pprof,
}

impl Format {
    /// Media type and bytes.
    pub fn write(self, profile: &Profile, title: &str) -> (&'static str, Vec<u8>) {
        match self {
            Self::Svg => ("image/svg+xml", flamegraph::svg(profile, title).into_bytes()),
            Self::Folded => ("text/plain; charset=utf-8", profile.folded().into_bytes()),
            Self::Pprof => ("application/octet-stream", pprof::encode(profile)),
        }
    }
}
