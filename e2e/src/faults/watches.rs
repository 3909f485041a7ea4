//! The answers of watches: held back, cut, expired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::serve::{Answer, Lost};
use super::state::State;
use super::weather::{Fault, Struck};

/// How many frames may wait in the proxy before the API server has to.
const BUFFERED: usize = 64;

enum End {
    /// The connection breaks.
    Break,
    /// An event says that the watch's place is too old.
    Expired,
}

/// A watch's answer that the weather holds back and ends.
pub(super) fn followed(state: Arc<State>, resource: String, body: Body, struck: Option<Struck>) -> Answer {
    let (send, receive) = mpsc::channel(BUFFERED);
    let end = struck.and_then(|struck| match struck.fault {
        Fault::CutWatch(..) => Some((struck.after, End::Break)),
        Fault::ExpireWatch(..) => Some((struck.after, End::Expired)),
        Fault::Delay(..) | Fault::Late(..) | Fault::Refuse(_) | Fault::LoseAnswer | Fault::HideAnswer => None,
    });
    tokio::spawn(pump(state, resource, body, end, send));
    let frames = futures::stream::unfold(receive, |mut receive| async move {
        let frame: Option<Result<Frame<Bytes>, Lost>> = receive.recv().await;
        frame.map(|frame| (frame, receive))
    });
    StreamBody::new(frames).boxed_unsync()
}

async fn pump(
    state: Arc<State>,
    resource: String,
    body: Body,
    end: Option<(Duration, End)>,
    send: mpsc::Sender<Result<Frame<Bytes>, Lost>>,
) {
    let mut frames = BodyStream::new(body);
    let cuts = state.cuts();
    let mut turns = state.turns();
    let mut frozen = false;
    let (at, end) = match end {
        Some((after, end)) => (Some(Instant::now() + after), end),
        None => (None, End::Break),
    };
    let due = async {
        match at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(due);
    loop {
        if state.freezes(&resource) && !std::mem::replace(&mut frozen, true) {
            state.count_watch(&resource, "watch frozen");
        } else if !state.freezes(&resource) {
            frozen = false;
        }
        let next = async {
            state.thawed(&resource).await;
            frames.next().await
        };
        let frame = tokio::select! {
            frame = next => frame,
            () = &mut due => return finish(&state, &send, &end).await,
            // Whoever watched has gone.
            () = send.closed() => return,
            _ = turns.changed() => {
                if state.cuts() > cuts {
                    return finish(&state, &send, &End::Break).await;
                }
                continue;
            }
        };
        let Some(frame) = frame else { return };
        // What came in the very moment of a freeze is held back as well.
        state.thawed(&resource).await;
        if send.send(frame.map_err(|error| Lost(error.to_string()))).await.is_err() {
            return;
        }
    }
}

async fn finish(state: &State, send: &mpsc::Sender<Result<Frame<Bytes>, Lost>>, end: &End) {
    state.open().await;
    let last = match end {
        End::Break => Err(Lost("the watch was cut".into())),
        End::Expired => Ok(Frame::data(Bytes::from_static(EXPIRED))),
    };
    // Whoever watched may have gone.
    let _ = send.send(last).await;
}

const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;
