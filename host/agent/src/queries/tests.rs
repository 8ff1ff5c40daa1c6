use std::fs::File;
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use codebox_agent::frame::Decoder;

use super::*;

/// A timeout longer than any test runs. A test that waits for it fails.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

/// A socket that accepts queries, and the stream of events from the agent to its host.
struct AgentFixture {
    address: SocketAddr,
    queries: Queries,
    events: UnixStream,
    decoder: Decoder,
}

impl AgentFixture {
    fn new(name: &str, timeout: Duration) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(format!("codebox-test-{}-{name}", std::process::id()))?;
        let (listener, queries) = (UnixListener::bind_addr(&address)?, Queries::default());
        queries.0.state().is_allowed = true;
        let (events, out) = UnixStream::pair()?;
        let (shared, writer) = (Arc::clone(&queries.0), EventWriter::from_file(File::from(OwnedFd::from(out))));
        thread::spawn(move || accept_queries(&listener, &shared, &writer, timeout));
        Ok(Self { address, queries, events, decoder: Decoder::new(Event::MAX_PAYLOAD_SIZE) })
    }

    fn send_partial(&self, text: &str) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect_addr(&self.address)?;
        socket.write_all(text.as_bytes())?;
        Ok(socket)
    }

    fn send_query(&self, text: &str) -> io::Result<UnixStream> {
        let socket = self.send_partial(text)?;
        socket.shutdown(Shutdown::Write)?;
        Ok(socket)
    }

    fn received(&mut self) -> io::Result<(u32, String)> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                let Some(Event::Query(number, query)) = Event::decode(frame) else {
                    return Err(io::Error::other("another word"));
                };
                return Ok((number, String::from_utf8_lossy(&query).into_owned()));
            }
            let mut piece = [0; 4096];
            match self.events.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.decoder.push(&piece[..count]),
            }
        }
    }
}

fn read_answer(mut socket: UnixStream) -> io::Result<String> {
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn unfinished_queries_do_not_block_others() -> io::Result<()> {
    let mut fixture = AgentFixture::new("endless", LONG_TIMEOUT)?;
    let endless: Vec<UnixStream> =
        (1..MAX_OPEN_QUERIES).map(|_| fixture.send_partial("without end")).collect::<Result<_, _>>()?;
    let socket = fixture.send_query("short")?;
    let (number, query) = fixture.received()?;
    assert_eq!(query, "short");
    fixture.queries.answer(number, b"answered".to_vec());
    assert_eq!(read_answer(socket)?, "answered");
    drop(endless);
    Ok(())
}

#[test]
fn routes_answers_arriving_out_of_order() -> io::Result<()> {
    let mut fixture = AgentFixture::new("order", LONG_TIMEOUT)?;
    let mut sockets = HashMap::new();
    for text in ["one", "two", "three"] {
        sockets.insert(text.to_owned(), fixture.send_query(text)?);
    }
    let mut received = (0..3).map(|_| fixture.received()).collect::<Result<Vec<_>, _>>()?;
    received.reverse();
    fixture.queries.answer(received[0].0.wrapping_add(1000), b"to an unknown query".to_vec());
    for (number, query) in received {
        fixture.queries.answer(number, format!("to {query}").into_bytes());
        let socket = sockets.remove(&query).ok_or(ErrorKind::NotFound)?;
        assert_eq!(read_answer(socket)?, format!("to {query}"));
    }
    Ok(())
}

#[test]
fn excess_queries_wait_until_slow_ones_time_out() -> io::Result<()> {
    let mut fixture = AgentFixture::new("many", Duration::from_millis(200))?;
    let slow: Vec<UnixStream> =
        (0..2 * MAX_OPEN_QUERIES).map(|_| fixture.send_partial("slow")).collect::<Result<_, _>>()?;
    let socket = fixture.send_query("late")?;
    let (number, query) = fixture.received()?;
    assert_eq!(query, "late");
    fixture.queries.answer(number, b"in the end".to_vec());
    assert_eq!(read_answer(socket)?, "in the end");
    for socket in slow {
        assert_eq!(read_answer(socket).unwrap_or_default(), "");
    }
    Ok(())
}

#[test]
fn times_out_answer_that_is_never_read() -> io::Result<()> {
    let mut fixture = AgentFixture::new("untaken", Duration::from_millis(200))?;
    let mut unread = Vec::new();
    for _ in 0..MAX_OPEN_QUERIES {
        unread.push(fixture.send_query("x")?);
        let (number, _) = fixture.received()?;
        // The answer does not fit into the buffer of a socket.
        fixture.queries.answer(number, vec![0; MAX_QUERY_SIZE]);
    }
    let _next = fixture.send_query("next")?;
    assert_eq!(fixture.received()?.1, "next");
    Ok(())
}

#[test]
fn closes_cancelled_and_oversized_queries() -> io::Result<()> {
    let mut fixture = AgentFixture::new("given-up", LONG_TIMEOUT)?;
    let socket = fixture.send_query("left alone")?;
    fixture.received()?;
    fixture.queries.cancel_all();
    assert_eq!(read_answer(socket)?, "");
    // The socket stays open for a later job that may query the host; until then, nothing reaches the host.
    assert_eq!(read_answer(fixture.send_query("not allowed")?)?, "");
    assert_eq!(fixture.queries.0.state().next, 1);
    let mut long = fixture.send_partial("")?;
    let refused =
        (0..).map(|_| long.write_all(&[0; 64 << 10])).take(MAX_QUERY_SIZE / (64 << 10) + 64).any(|done| done.is_err());
    assert!(refused, "all of it was taken");
    Ok(())
}
