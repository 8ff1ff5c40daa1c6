//! Partial reads of an index's files.

use async_http_range_reader::AsyncHttpRangeReader;
use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest_middleware::reqwest::Request;
use uv_redacted::DisplaySafeUrl;

use super::client::Registry;
use super::partial_download::MAX_WHEEL_SIZE;

/// Opens the file at a URL for reading in ranges. Returns `None` if the request fails, the server does not support
/// range requests, or the file's length is unknown or larger than [`MAX_WHEEL_SIZE`].
pub(crate) async fn open_ranged(url: &DisplaySafeUrl, registry: &Registry) -> Option<AsyncHttpRangeReader> {
    // With a content encoding, the ranges would be of other bytes.
    let identity_encoding = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    let client = registry.client.cached_client().uncached();
    let mut request = Request::new(Method::HEAD, (**url).clone());
    *request.headers_mut() = identity_encoding.clone();
    let response = client.execute(request).await.ok()?.error_for_status().ok()?;
    // The URL after all redirects: range requests follow none.
    let final_url = DisplaySafeUrl::from_url(response.url().clone());
    let client = client.for_host(&final_url).clone();
    let file =
        AsyncHttpRangeReader::from_head_response(client, response, final_url.into(), identity_encoding).await.ok()?;
    (file.len() <= MAX_WHEEL_SIZE).then_some(file)
}
