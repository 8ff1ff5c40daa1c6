//! Size limits of responses: index pages are read into memory, and a server may send an endless response.

use async_trait::async_trait;
use http::Extensions;
use http::header::ACCEPT_ENCODING;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use reqwest_middleware::reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next};

use crate::{complexity, metadata};

/// Maximum size of one response in bytes, unpacked: many times the longest page of any known index.
const MAX_RESPONSE_SIZE: usize = 128 << 20;

/// Middleware that cuts off responses longer than any index page, and rejects metadata that no parser can process.
pub(super) struct ResponseLimit;

/// Error for a wheel whose requirements no parser can process.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the requirements of {file} are too complex or too long")]
pub(crate) struct MetadataTooComplex {
    pub(crate) file: String,
}

#[async_trait]
impl Middleware for ResponseLimit {
    async fn handle(&self, request: Request, more: &mut Extensions, next: Next<'_>) -> Result<Response, Error> {
        // Wheels are requested without a content encoding. They are streamed to disk, where their size has a separate
        // limit.
        let is_wheel = request.headers().get(ACCEPT_ENCODING).is_some_and(|named| named == "identity");
        let response = next.run(request, more).await?;
        if is_wheel {
            return Ok(response);
        }
        // The conversion to `http::Response` loses the URL, and this extension of a new response restores it.
        let url_parts = http::Response::builder().url(response.url().clone()).body(()).map_err(Error::middleware)?;
        let metadata_file =
            response.url().path_segments().and_then(|mut path| path.next_back()?.strip_suffix(".metadata"));
        let metadata_file = metadata_file.filter(|_| response.status().is_success()).map(str::to_owned);
        let (mut parts, body) = http::Response::<Body>::from(response).into_parts();
        parts.extensions.extend(url_parts.into_parts().0.extensions);
        if let Some(file) = metadata_file {
            let too_complex = || Error::middleware(MetadataTooComplex { file: file.clone() });
            let full_body = Limited::new(body, metadata::MAX_METADATA_SIZE as usize).collect().await;
            let full_body = full_body.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_complex(),
                false => Error::middleware(std::io::Error::other(error)),
            });
            let full_body = full_body?.to_bytes();
            if !complexity::are_allowed(&full_body) {
                return Err(too_complex());
            }
            return Ok(http::Response::from_parts(parts, Body::from(full_body)).into());
        }
        Ok(http::Response::from_parts(parts, Body::wrap(Limited::new(body, MAX_RESPONSE_SIZE))).into())
    }
}
