//! Partial reads of an index's files.

use async_http_range_reader::AsyncHttpRangeReader;
use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest_middleware::reqwest::Request;
use uv_redacted::DisplaySafeUrl;

use super::client::Registry;
use super::landing::LARGEST;

/// Opens the file at a URL for reading in ranges. Returns `None` if the request fails, the server does not support
/// range requests, or the file's length is unknown or larger than [`LARGEST`].
pub(crate) async fn in_parts(url: &DisplaySafeUrl, registry: &Registry) -> Option<AsyncHttpRangeReader> {
    // With a content encoding, the ranges would be of other bytes.
    let as_it_is = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    let client = registry.client.cached_client().uncached();
    let mut asked = Request::new(Method::HEAD, (**url).clone());
    *asked.headers_mut() = as_it_is.clone();
    let told = client.execute(asked).await.ok()?.error_for_status().ok()?;
    // The URL after all redirects: range requests follow none.
    let place = DisplaySafeUrl::from_url(told.url().clone());
    let client = client.for_host(&place).clone();
    let file = AsyncHttpRangeReader::from_head_response(client, told, place.into(), as_it_is).await.ok()?;
    (file.len() <= LARGEST).then_some(file)
}
