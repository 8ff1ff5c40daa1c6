use std::fs::File;
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use codebox_agent::frame::Decoder;

use super::*;

/// A timeout longer than any test runs. A test that waits for it fails.
const LONG: Duration = Duration::from_secs(600);

/// A socket that accepts queries, and the stream of events from the agent to its host.
struct Bench {
    at: SocketAddr,
    questions: Questions,
    words: UnixStream,
    decoder: Decoder,
}

impl Bench {
    fn new(name: &str, patience: Duration) -> io::Result<Self> {
        let at = SocketAddr::from_abstract_name(format!("codebox-test-{}-{name}", std::process::id()))?;
        let (listener, questions) = (UnixListener::bind_addr(&at)?, Questions::default());
        let (words, out) = UnixStream::pair()?;
        let (shared, line) = (Arc::clone(&questions.0), Line::over(File::from(OwnedFd::from(out))));
        thread::spawn(move || pass(&listener, &shared, &line, patience));
        Ok(Self { at, questions, words, decoder: Decoder::new(Word::LONGEST) })
    }

    fn ask(&self, text: &str) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect_addr(&self.at)?;
        socket.write_all(text.as_bytes())?;
        Ok(socket)
    }

    fn ask_whole(&self, text: &str) -> io::Result<UnixStream> {
        let socket = self.ask(text)?;
        socket.shutdown(Shutdown::Write)?;
        Ok(socket)
    }

    fn heard(&mut self) -> io::Result<(u32, String)> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                let Some(Word::Ask(number, question)) = Word::decode(frame) else {
                    return Err(io::Error::other("another word"));
                };
                return Ok((number, String::from_utf8_lossy(&question).into_owned()));
            }
            let mut piece = [0; 4096];
            match self.words.read(&mut piece)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.decoder.push(&piece[..count]),
            }
        }
    }
}

fn taken(mut socket: UnixStream) -> io::Result<String> {
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_question_that_never_ends_keeps_no_other_waiting() -> io::Result<()> {
    let mut bench = Bench::new("endless", LONG)?;
    let endless: Vec<UnixStream> = (1..MAX_ASKED).map(|_| bench.ask("without end")).collect::<Result<_, _>>()?;
    let socket = bench.ask_whole("short")?;
    let (number, question) = bench.heard()?;
    assert_eq!(question, "short");
    bench.questions.answer(number, b"answered".to_vec());
    assert_eq!(taken(socket)?, "answered");
    drop(endless);
    Ok(())
}

#[test]
fn answers_go_to_who_asked_in_whatever_order() -> io::Result<()> {
    let mut bench = Bench::new("order", LONG)?;
    let mut asked = HashMap::new();
    for text in ["one", "two", "three"] {
        asked.insert(text.to_owned(), bench.ask_whole(text)?);
    }
    let mut heard = (0..3).map(|_| bench.heard()).collect::<Result<Vec<_>, _>>()?;
    heard.reverse();
    bench.questions.answer(heard[0].0.wrapping_add(1000), b"of nobody".to_vec());
    for (number, question) in heard {
        bench.questions.answer(number, format!("to {question}").into_bytes());
        let socket = asked.remove(&question).ok_or(ErrorKind::NotFound)?;
        assert_eq!(taken(socket)?, format!("to {question}"));
    }
    Ok(())
}

#[test]
fn more_than_may_be_open_wait_and_the_slow_are_hung_up_on() -> io::Result<()> {
    let mut bench = Bench::new("many", Duration::from_millis(200))?;
    let slow: Vec<UnixStream> = (0..2 * MAX_ASKED).map(|_| bench.ask("slow")).collect::<Result<_, _>>()?;
    let socket = bench.ask_whole("late")?;
    let (number, question) = bench.heard()?;
    assert_eq!(question, "late");
    bench.questions.answer(number, b"in the end".to_vec());
    assert_eq!(taken(socket)?, "in the end");
    for socket in slow {
        assert_eq!(taken(socket).unwrap_or_default(), "");
    }
    Ok(())
}

#[test]
fn an_answer_that_nobody_takes_is_given_up() -> io::Result<()> {
    let mut bench = Bench::new("untaken", Duration::from_millis(200))?;
    let mut untaken = Vec::new();
    for _ in 0..MAX_ASKED {
        untaken.push(bench.ask_whole("x")?);
        let (number, _) = bench.heard()?;
        // The answer does not fit into the buffer of a socket.
        bench.questions.answer(number, vec![0; MAX_ASK]);
    }
    let _next = bench.ask_whole("next")?;
    assert_eq!(bench.heard()?.1, "next");
    Ok(())
}

#[test]
fn what_is_given_up_and_what_is_too_long_is_hung_up_on() -> io::Result<()> {
    let mut bench = Bench::new("given-up", LONG)?;
    let socket = bench.ask_whole("left alone")?;
    bench.heard()?;
    bench.questions.give_up();
    assert_eq!(taken(socket)?, "");
    let mut long = bench.ask("")?;
    let refused =
        (0..).map(|_| long.write_all(&[0; 64 << 10])).take(MAX_ASK / (64 << 10) + 64).any(|done| done.is_err());
    assert!(refused, "all of it was taken");
    Ok(())
}
