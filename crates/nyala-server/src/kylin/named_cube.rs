//! The cube that the path of a request names, found for the caller.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{QueryError, Session, SessionOptions};
use nyala_model::QualifiedName;
use serde::Deserialize;
use serde_json::Value;

use super::cubes::{Cube, find, shown_cube};
use super::description::Described;
use super::error::KylinError;
use super::parameters::Parameters;
use super::segments::{Segment, segments_of};
use super::session::{rows, session_in};
use crate::http::{Caller, Shared};

/// A cube that the path names, not looked up yet: some requests have the project in their body, or among other parameters.
pub struct CubeName {
    shared: Shared,
    options: SessionOptions,
    place: Place,
}

/// The parts of a path that tell the cube. Kylin 5 calls it a model.
#[derive(Debug, Deserialize)]
struct Place {
    #[serde(alias = "model")]
    cube: String,
    project: Option<String>,
}

impl FromRequestParts<Shared> for CubeName {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let Caller(options) =
            Caller::from_request_parts(parts, shared).await.map_err(IntoResponse::into_response)?;
        let Path(place) =
            Path::<Place>::from_request_parts(parts, shared).await.map_err(IntoResponse::into_response)?;
        Ok(Self { shared: shared.clone(), options, place })
    }
}

impl CubeName {
    /// Looks the cube up: in this project, unless its name has a schema.
    ///
    /// # Errors
    /// There is no such cube, or there are several.
    pub fn find(self, project: Option<&str>) -> BoxFuture<'_, Result<NamedCube, KylinError>> {
        let Self { shared, options, place } = self;
        async move {
            let session = session_in(&shared, options, None)?;
            let cube = find(&shared, &session, &place.cube, project).await?;
            Ok(NamedCube { shared, session, cube })
        }
        .boxed()
    }
}

/// A cube that exists, with a session of the caller. The extractor looks up the cube that the path names, in the project that the path
/// or the query of the URL names.
pub struct NamedCube {
    pub shared: Shared,
    pub session: Arc<Session>,
    pub cube: Cube,
}

impl FromRequestParts<Shared> for NamedCube {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let mut name = CubeName::from_request_parts(parts, shared).await?;
        let asked = Parameters::of(&parts.uri).map_err(IntoResponse::into_response)?;
        let of_path = name.place.project.take();
        name.find(of_path.as_deref().or_else(|| asked.project())).await.map_err(IntoResponse::into_response)
    }
}

impl NamedCube {
    pub fn name(&self) -> &QualifiedName {
        &self.cube.name
    }

    /// Runs a statement, and drops the rows of its answer.
    pub fn run<'a>(&'a self, statement: &'a str) -> BoxFuture<'a, Result<(), KylinError>> {
        async move {
            rows(&self.session, statement).await?;
            Ok(())
        }
        .boxed()
    }

    /// Its segments, by number.
    pub fn segments(&self) -> BoxFuture<'_, Result<Vec<Segment>, QueryError>> {
        segments_of(&self.shared, &self.session, self.name())
    }

    /// The parts of the cube.
    ///
    /// # Errors
    /// The cube no longer fits its tables.
    pub fn described(&self) -> BoxFuture<'_, Result<Described, QueryError>> {
        Described::find(&self.shared, self.name())
    }

    /// The cube with its segments, as Kylin up to version 4 shows it.
    pub fn shown(&self) -> BoxFuture<'_, Result<Value, QueryError>> {
        shown_cube(&self.shared, &self.session, &self.cube)
    }

    /// The cube of this name, read again after a change, in the same form.
    pub fn shown_now<'a>(&'a self, name: &'a QualifiedName) -> BoxFuture<'a, Result<Value, KylinError>> {
        async move {
            let cube = find(&self.shared, &self.session, &name.to_string(), None).await?;
            Ok(shown_cube(&self.shared, &self.session, &cube).await?)
        }
        .boxed()
    }
}
