//! A small blocking HTTP/1.1 server: a thread for each connection, bounded in number, size and time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::log::Log;

const MAX_CONNECTIONS: usize = 64;
const MAX_HEAD: usize = 16 * 1024;
const MAX_BODY: usize = 8 * 1024 * 1024;
/// For one read or write, also between two requests; the contract's.
const TIMEOUT: Duration = Duration::from_secs(30);
const STACK: usize = 256 * 1024;

/// A request that arrived whole.
#[derive(Debug)]
pub struct Request {
    /// In capitals.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// Decoded.
    pub body: Vec<u8>,
}

/// What to answer; the body is JSON or empty.
#[derive(Debug)]
pub struct Response {
    /// The code.
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
}

impl Response {
    /// The text that HTTP gives its status.
    pub fn status_text(status: u16) -> &'static str {
        match status {
            200 => "OK",
            201 => "Created",
            204 => "No Content",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Request Entity Too Large",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        }
    }

    /// The contract's error body.
    pub fn error(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "code": Self::status_text(status), "message": message });
        Self { status, body: body.to_string().into_bytes() }
    }
}

/// Binds `address`.
///
/// # Errors
/// What the kernel says.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Answers in the background for as long as the process lives.
///
/// # Errors
/// The thread cannot be started.
pub fn serve(
    listener: TcpListener,
    log: Arc<Log>,
    handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let handler = Arc::new(handler);
    let open = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: a pause lets connections end, and keeps the log short.
                    log.error(&format!("cannot accept a connection: {error}"));
                    thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            let place = Place::take(&open);
            let handler = Arc::clone(&handler);
            let started =
                thread::Builder::new().name("connection".into()).stack_size(STACK).spawn(move || match place {
                    Some(_place) => drop(Connection::new(stream).and_then(|mut connection| connection.talk(&*handler))),
                    None => drop(refuse(stream)),
                });
            if let Err(error) = started {
                log.error(&format!("cannot start a thread for a connection: {error}"));
            }
        }
    };
    thread::Builder::new().name("accept".into()).stack_size(STACK).spawn(accept).map(drop)
}

struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(stream: TcpStream) -> io::Result<()> {
    let message = format!("{MAX_CONNECTIONS} connections are open; close some");
    Connection::new(stream)?.write(&Response::error(503, &message), false)
}

struct Connection {
    stream: TcpStream,
    /// Read and not used yet.
    buffer: Vec<u8>,
}

struct Head {
    request: Request,
    length: Length,
    keep_alive: bool,
    expects_continue: bool,
}

enum Length {
    Bytes(usize),
    Chunked,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    fn talk(&mut self, handler: &dyn Fn(&Request) -> Response) -> io::Result<()> {
        loop {
            match self.request() {
                Ok(Some((request, keep_alive))) => {
                    self.write(&handler(&request), keep_alive)?;
                    if !keep_alive {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(Broken::Stream(error)) => return Err(error),
                Err(Broken::Request(status, message)) => {
                    return self.write(&Response::error(status, message), false);
                }
            }
        }
    }

    fn request(&mut self) -> Result<Option<(Request, bool)>, Broken> {
        let Some(mut head) = self.head()? else {
            return Ok(None);
        };
        if head.expects_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        head.request.body = match head.length {
            Length::Bytes(length) if length > MAX_BODY => return Err(TOO_LARGE),
            Length::Bytes(length) => self.exactly(length)?,
            Length::Chunked => self.chunks()?,
        };
        Ok(Some((head.request, head.keep_alive)))
    }

    fn head(&mut self) -> Result<Option<Head>, Broken> {
        loop {
            if let Some((head, used)) = parse_head(&self.buffer)? {
                self.buffer.drain(..used);
                return Ok(Some(head));
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(Broken::Request(431, "the head of the request is larger than 16 KiB"));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Broken> {
        while self.buffer.len() < length {
            if !self.more()? {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size =
                usize::from_str_radix(size, 16).map_err(|_| Broken::Request(400, "a chunk has no valid size"))?;
            if body.len().saturating_add(size) > MAX_BODY {
                return Err(TOO_LARGE);
            }
            if size == 0 {
                // Trailers mean nothing here.
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size)?);
            if !self.line()?.is_empty() {
                return Err(Broken::Request(400, "a chunk is longer than its size"));
            }
        }
    }

    fn line(&mut self) -> Result<String, Broken> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).map_err(|_| Broken::Request(400, "a chunk has no valid size"));
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(Broken::Request(400, "a line is longer than 16 KiB"));
            }
            if !self.more()? {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// False at the end of the stream.
    fn more(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 8192];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(read) => {
                    self.buffer.extend_from_slice(&chunk[..read]);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self, response: &Response, keep_alive: bool) -> io::Result<()> {
        let mut bytes = format!("HTTP/1.1 {} {}\r\n", response.status, Response::status_text(response.status));
        if response.status != 204 {
            bytes += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", response.body.len());
        }
        bytes += if keep_alive { "\r\n" } else { "Connection: close\r\n\r\n" };
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(&response.body);
        self.stream.write_all(&bytes)
    }
}

/// `None` while it is not whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Broken> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let used = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => {
            return Err(Broken::Request(400, "the head of the request is not HTTP/1.1"));
        }
    };
    let header = |name: &str| {
        let found = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    let length = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
        (Some(_), None) => return Err(Broken::Request(501, "the only transfer coding is chunked")),
        (Some(_), Some(_)) => {
            return Err(Broken::Request(400, "a request has one length, not two"));
        }
        (None, Some(text)) => {
            Length::Bytes(text.parse().map_err(|_| Broken::Request(400, "Content-Length is not a number"))?)
        }
        (None, None) => Length::Bytes(0),
    };
    let says = |name: &str, word: &str| header(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let keep_alive = !says("connection", "close") && (parsed.version == Some(1) || says("connection", "keep-alive"));
    let path = parsed.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let request = Request { method: parsed.method.unwrap_or_default().to_owned(), path, body: Vec::new() };
    let expects_continue = says("expect", "100-continue");
    Ok(Some((Head { request, length, keep_alive, expects_continue }, used)))
}

const TOO_LARGE: Broken = Broken::Request(413, "the body is larger than 8 MiB");

enum Broken {
    /// Nothing can be answered any more.
    Stream(io::Error),
    /// Status and message; the connection is closed after them.
    Request(u16, &'static str),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}
