//! How much of an answer is taken in: pages of an index are read into memory, and a server can go on for ever.

use async_trait::async_trait;
use http::Extensions;
use http::header::ACCEPT_ENCODING;
use http_body_util::Limited;
use reqwest_middleware::reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next};

/// The most of one answer, unpacked, in bytes: many times the longest page of any index that is known.
const MOST: usize = 128 << 20;

/// Ends answers that are longer than any page of an index.
pub(super) struct Bounded;

#[async_trait]
impl Middleware for Bounded {
    async fn handle(&self, asked: Request, more: &mut Extensions, next: Next<'_>) -> Result<Response, Error> {
        // Wheels are asked for as they are. They go to disk as they come, and are held to a bound of their own there.
        let wheel = asked.headers().get(ACCEPT_ENCODING).is_some_and(|named| named == "identity");
        let response = next.run(asked, more).await?;
        if wheel {
            return Ok(response);
        }
        // Only a new response knows the address that this one is of.
        let known = http::Response::builder().url(response.url().clone()).body(()).map_err(Error::middleware)?;
        let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
        parts.extensions.extend(known.into_parts().0.extensions);
        Ok(http::Response::from_parts(parts, Body::wrap(Limited::new(body, MOST))).into())
    }
}
