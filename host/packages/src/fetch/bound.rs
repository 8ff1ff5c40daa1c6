//! Size limits of responses: index pages are read into memory, and a server may send an endless response.

use async_trait::async_trait;
use http::Extensions;
use http::header::ACCEPT_ENCODING;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use reqwest_middleware::reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next};

use crate::{condition, metadata};

/// Maximum size of one response in bytes, unpacked: many times the longest page of any known index.
const MOST: usize = 128 << 20;

/// Middleware that cuts off responses longer than any index page, and rejects metadata that no parser can process.
pub(super) struct Bounded;

/// Error for a wheel whose requirements no parser can process.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the requirements of {file} are too complex or too long")]
pub(crate) struct Tangled {
    pub(crate) file: String,
}

#[async_trait]
impl Middleware for Bounded {
    async fn handle(&self, asked: Request, more: &mut Extensions, next: Next<'_>) -> Result<Response, Error> {
        // Wheels are requested without a content encoding. They are streamed to disk, where their size has a separate
        // limit.
        let wheel = asked.headers().get(ACCEPT_ENCODING).is_some_and(|named| named == "identity");
        let response = next.run(asked, more).await?;
        if wheel {
            return Ok(response);
        }
        // The conversion to `http::Response` loses the URL, and this extension of a new response restores it.
        let known = http::Response::builder().url(response.url().clone()).body(()).map_err(Error::middleware)?;
        let told = response.url().path_segments().and_then(|mut path| path.next_back()?.strip_suffix(".metadata"));
        let told = told.filter(|_| response.status().is_success()).map(str::to_owned);
        let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
        parts.extensions.extend(known.into_parts().0.extensions);
        if let Some(file) = told {
            let tangled = || Error::middleware(Tangled { file: file.clone() });
            let whole = Limited::new(body, metadata::LARGEST as usize).collect().await;
            let whole = whole.map_err(|error| match error.is::<LengthLimitError>() {
                true => tangled(),
                false => Error::middleware(std::io::Error::other(error)),
            });
            let whole = whole?.to_bytes();
            if !condition::are_plain(&whole) {
                return Err(tangled());
            }
            return Ok(http::Response::from_parts(parts, Body::from(whole)).into());
        }
        Ok(http::Response::from_parts(parts, Body::wrap(Limited::new(body, MOST))).into())
    }
}
