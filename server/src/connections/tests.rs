#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;

const KEEP_ALIVE: Duration = Duration::from_secs(40);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n";

/// A server on loopback. Its clock jumps to the next timer whenever nothing can happen before that.
async fn start() -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = async || {
        sleep(10 * KEEP_ALIVE).await;
        "done"
    };
    let router = Router::new().route("/", get(async || "here")).route("/slow", get(slow));
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, router, KEEP_ALIVE, async {
        let _ = stopped.await;
    }));
    (address, stop, served)
}

async fn answer(stream: &mut TcpStream, body: &str) {
    let mut text = String::new();
    while !text.ends_with(body) {
        let mut buffer = [0; 512];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// Until the other end closes; nothing may come before.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = timeout(100 * KEEP_ALIVE, stream.read_to_end(&mut rest)).await.expect("stays open");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_open_between_requests_for_as_long_as_the_configuration_says_and_no_longer() {
    let (address, _stop, _) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(REQUEST).await.unwrap();
        answer(&mut stream, "here").await;
        sleep(KEEP_ALIVE - Duration::from_secs(1)).await;
    }
    let asked = Instant::now();
    stream.write_all(REQUEST).await.unwrap();
    answer(&mut stream, "here").await;
    closed(&mut stream).await;
    let open = asked.elapsed();
    assert!(open >= KEEP_ALIVE && open < KEEP_ALIVE + Duration::from_secs(1), "{open:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_asks_is_closed() {
    let (address, _stop, _) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let opened = Instant::now();
    closed(&mut stream).await;
    assert!(opened.elapsed() <= KEEP_ALIVE + Duration::from_secs(1), "{:?}", opened.elapsed());
}

#[tokio::test(start_paused = true)]
async fn headers_that_trickle_in_cannot_hold_a_connection() {
    let (address, _stop, _) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    answer(&mut stream, "here").await;
    let (mut from, mut to) = stream.into_split();
    let trickle = tokio::spawn(async move {
        to.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        while to.write_all(b"a: b\r\n").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });
    let begun = Instant::now();
    let mut rest = Vec::new();
    let _ = from.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    let held = begun.elapsed();
    assert!(held >= HEAD - Duration::from_secs(1) && held <= HEAD + Duration::from_secs(1), "{held:?}");
    trickle.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_its_time_is_answered_and_the_connection_stays() {
    let (address, _stop, _) = start().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(SLOW).await.unwrap();
    answer(&mut stream, "done").await;
    stream.write_all(REQUEST).await.unwrap();
    answer(&mut stream, "here").await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_what_waits_and_lets_what_is_served_finish() {
    let (address, stop, served) = start().await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(REQUEST).await.unwrap();
    answer(&mut idle, "here").await;
    let mut busy = TcpStream::connect(address).await.unwrap();
    busy.write_all(SLOW).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let stopped = Instant::now();
    stop.send(()).unwrap();
    closed(&mut idle).await;
    assert!(stopped.elapsed() < Duration::from_secs(1));
    answer(&mut busy, "done").await;
    closed(&mut busy).await;
    served.await.unwrap();
    TcpStream::connect(address).await.unwrap_err();
}
