//! Where the cuboids of a segment go, whether it is new or ready.

use nyala_model::CuboidEntry;
use nyala_sql::error::Result;

use super::extend::ReadySegment;
use super::segment::NewSegment;

/// The segment that cuboids are made for.
#[derive(Clone, Copy)]
pub enum Home<'a> {
    New(&'a NewSegment),
    Ready(&'a ReadySegment),
}

impl Home<'_> {
    pub fn folder(&self) -> &str {
        match self {
            Self::New(segment) => segment.folder(),
            Self::Ready(segment) => segment.folder(),
        }
    }

    pub fn mark(&self) -> &str {
        match self {
            Self::New(segment) => segment.mark(),
            Self::Ready(segment) => segment.mark(),
        }
    }

    pub async fn add(&self, cuboid: &CuboidEntry) -> Result<()> {
        match self {
            Self::New(segment) => segment.add(cuboid).await,
            Self::Ready(segment) => segment.add(cuboid).await,
        }
    }
}
