//! The query of a URL. Scripts leave values empty, write a key twice, and send old and new keys beside each other: all of these are read.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;

use super::answer::{Dialect, Page};
use super::error::KylinError;

/// Keys and values, in their order, without those that are empty.
#[derive(Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = KylinError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, KylinError> {
        Self::of(&parts.uri)
    }
}

impl Parameters {
    /// The parameters of a URL.
    pub fn of(uri: &Uri) -> Result<Self, KylinError> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(pairs) = pairs.map_err(|rejection| KylinError::invalid(rejection.body_text()))?;
        Ok(Self(pairs.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect()))
    }

    /// The value of the first of these keys that has one.
    pub fn text(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|wanted| {
            let pair = self.0.iter().find(|(key, _)| key == wanted)?;
            Some(pair.1.trim())
        })
    }

    /// The value of the first of these keys that has one, as a number.
    ///
    /// # Errors
    /// The value is no number.
    pub fn number<N: FromStr>(&self, keys: &[&str]) -> Result<Option<N>, KylinError> {
        let Some(text) = self.text(keys) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            KylinError::invalid(format!("`{}` is `{text}`, and must be a whole number", keys.join("` or `")))
        })
    }

    /// Whether a key is `true`; programs in Python write `True`.
    pub fn flag(&self, key: &str) -> bool {
        self.text(&[key]).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// All values of these keys. Clients write several as `ids=1,2` or as `ids=1&ids=2`.
    pub fn list(&self, keys: &[&str]) -> Vec<String> {
        let values = self.0.iter().filter(|(key, _)| keys.contains(&key.as_str()));
        let items = values.flat_map(|(_, value)| value.split(',')).map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// The project.
    pub fn project(&self) -> Option<&str> {
        self.text(&["project", "projectName"])
    }

    /// The part of a list that is asked for: counted in rows up to Kylin 4, in pages with an envelope. If a client sends both, those of its
    /// dialect count.
    ///
    /// # Errors
    /// A value is no number.
    pub fn page(&self, dialect: Dialect) -> Result<Page, KylinError> {
        let (offset, limit) = (self.number(&["offset"])?, self.number(&["limit"])?);
        let number = self.number(&["page_offset", "pageOffset"])?;
        let size = self.number(&["page_size", "pageSize"])?;
        let has_rows = offset.is_some() || limit.is_some();
        let has_pages = number.is_some() || size.is_some();
        let in_pages = has_pages && (dialect.has_envelope() || !has_rows);
        Ok(if in_pages { Page::of_pages(number, size) } else { Page::of_rows(offset, limit) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(query: &str) -> Parameters {
        Parameters::of(&format!("/kylin/api/models?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn empty_and_repeated_keys_are_read() {
        let url = asked("cubeName=&limit=15&modelName=a%20b&projectName=p&project=&exact=True&limit=3");
        assert_eq!((url.text(&["cubeName", "modelName"]), url.project()), (Some("a b"), Some("p")));
        assert_eq!(url.number::<usize>(&["limit"]).unwrap(), Some(15));
        assert_eq!(url.number::<usize>(&["offset"]).unwrap(), None);
        assert!(url.flag("exact") && !asked("exact=False").flag("exact") && !asked("").flag("exact"));
        assert_eq!(asked("ids=1,2&names=a&ids=3&ids=").list(&["ids", "names"]), ["1", "2", "a", "3"]);
        assert!(asked("limit=many").number::<usize>(&["limit"]).is_err());
    }

    #[test]
    fn pages_are_counted_as_the_dialect_does() {
        let page = |query: &str, dialect| asked(query).page(dialect).unwrap();
        let both = "pageOffset=1&offset=4&limit=50000&pageSize=1000";
        assert_eq!(page(both, Dialect::Bare), Page::of_rows(Some(4), Some(50_000)));
        assert_eq!(page(both, Dialect::Envelope), Page::of_pages(Some(1), Some(1000)));
        assert_eq!(page(both, Dialect::Named), Page::of_pages(Some(1), Some(1000)));
        assert_eq!(page("pageOffset=2&pageSize=10", Dialect::Bare), Page::of_pages(Some(2), Some(10)));
        assert_eq!(page("limit=7", Dialect::Envelope), Page::of_rows(None, Some(7)));
        assert_eq!(page("", Dialect::Envelope), Page::default());
        assert!(asked("page_size=ten").page(Dialect::Envelope).is_err());
    }
}
