//! Downloads: whole, by bytes (`Range`), or by lines (`offset`, `limit`).

use std::io::SeekFrom;

use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::answer::Failure;

/// What to read.
#[derive(Deserialize)]
pub struct Wanted {
    path: String,
    /// First line, from 1.
    offset: Option<usize>,
    /// Number of lines.
    limit: Option<usize>,
}

/// `GET /files/download?path=`.
pub async fn download(Query(wanted): Query<Wanted>, headers: HeaderMap) -> Result<Response, Failure> {
    let io = |error| Failure::io(&wanted.path, &error);
    let mut file = File::open(&wanted.path).await.map_err(io)?;
    let data = file.metadata().await.map_err(io)?;
    if data.is_dir() {
        return Err(Failure::bad(format!("{} is a directory", wanted.path)));
    }
    if wanted.offset.is_some() || wanted.limit.is_some() {
        let mut text = Vec::new();
        file.read_to_end(&mut text).await.map_err(io)?;
        return Ok(lines(&text, wanted.offset.unwrap_or(1), wanted.limit).into_response());
    }
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some(range) = range else {
        return Ok(body(file, data.len(), StatusCode::OK, None));
    };
    let Some((first, last)) = bytes(range, data.len()) else {
        let all = [(header::CONTENT_RANGE, format!("bytes */{}", data.len()))];
        return Ok((StatusCode::RANGE_NOT_SATISFIABLE, all).into_response());
    };
    file.seek(SeekFrom::Start(first)).await.map_err(io)?;
    let part = format!("bytes {first}-{last}/{}", data.len());
    Ok(body(file, last - first + 1, StatusCode::PARTIAL_CONTENT, Some(part)))
}

fn lines(text: &[u8], offset: usize, limit: Option<usize>) -> Vec<u8> {
    let all = text.split_inclusive(|byte| *byte == b'\n').skip(offset.saturating_sub(1));
    all.take(limit.unwrap_or(usize::MAX)).flatten().copied().collect()
}

/// First and last byte of a single range.
fn bytes(range: &str, length: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let end = length.checked_sub(1)?;
    let (first, last) = match (first.parse().ok(), last.parse().ok()) {
        (Some(first), Some(last)) => (first, end.min(last)),
        (Some(first), None) if last.is_empty() => (first, end),
        (None, Some(count)) if first.is_empty() => (length.saturating_sub(count), end),
        _ => return None,
    };
    (first <= last).then_some((first, last))
}

fn body(file: File, length: u64, status: StatusCode, range: Option<String>) -> Response {
    let chunks = stream::try_unfold(file.take(length), |mut file| async move {
        let mut chunk = vec![0; 64 * 1024];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((chunk, file)))
    });
    let kind = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
    ];
    let range = range.map(|range| [(header::CONTENT_RANGE, range)]);
    match range {
        Some(range) => (status, kind, range, Body::from_stream(chunks)).into_response(),
        None => (status, kind, Body::from_stream(chunks)).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_file() {
        assert_eq!(bytes("bytes=0-3", 10), Some((0, 3)));
        assert_eq!(bytes("bytes=4-", 10), Some((4, 9)));
        assert_eq!(bytes("bytes=-3", 10), Some((7, 9)));
        assert_eq!(bytes("bytes=4-99", 10), Some((4, 9)));
        assert_eq!(bytes("bytes=10-", 10), None);
        assert_eq!(bytes("bytes=0-", 0), None);
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!(lines(b"a\nb\nc", 2, Some(1)), b"b\n");
        assert_eq!(lines(b"a\nb\nc", 2, None), b"b\nc");
    }
}
