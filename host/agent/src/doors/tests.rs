use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use codebox_agent::frame::Decoder;

use super::*;

/// The host's end of the connection to the agent.
struct Host {
    words: UnixStream,
    decoder: Decoder,
}

impl Host {
    fn word(&mut self) -> Word {
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("it is short") {
                return Word::decode(frame).expect("it is a word");
            }
            let mut buffer = vec![0; 64 << 10];
            let count = self.words.read(&mut buffer).expect("the line is open");
            assert_ne!(count, 0, "the line has ended");
            self.decoder.push(&buffer[..count]);
        }
    }
}

fn free_door() -> Door {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    Door { address: Ipv4Addr::LOCALHOST, port: listener.local_addr().expect("it is bound").port() }
}

fn opened() -> (Doors, Door, Host) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let line = Line::over(File::from(OwnedFd::from(theirs)));
    let (mut doors, door) = (Doors::default(), free_door());
    doors.open(&[door], &line).expect("the port is free");
    (doors, door, Host { words: ours, decoder: Decoder::new(Word::LONGEST) })
}

#[test]
fn bytes_go_both_ways_and_end() {
    let (doors, door, mut host) = opened();
    let mut guest = TcpStream::connect((door.address, door.port)).expect("the door is open");
    let Word::Knock(number, 0) = host.word() else { panic!("nobody knocked") };
    guest.write_all(b"question").expect("it is open");
    guest.shutdown(Shutdown::Write).expect("it is open");
    let mut heard = Vec::new();
    loop {
        match host.word() {
            Word::Way(of, Said::Bytes(bytes)) if of == number => heard.extend(bytes),
            Word::Way(of, Said::End) if of == number => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, b"question");
    doors.said(number, Said::Bytes(b"answer".to_vec()));
    doors.said(number, Said::End);
    let mut answer = Vec::new();
    guest.read_to_end(&mut answer).expect("it ends");
    assert_eq!(answer, b"answer");
    assert_eq!(host.word(), Word::Way(number, Said::Taken(6)));
}

#[test]
fn a_program_says_no_more_than_the_host_has_room_for() {
    let (doors, door, mut host) = opened();
    let guest = TcpStream::connect((door.address, door.port)).expect("the door is open");
    let Word::Knock(number, _) = host.word() else { panic!("nobody knocked") };
    let mut writer = guest.try_clone().expect("a second one");
    let flood = thread::spawn(move || writer.write_all(&vec![7; 4 * WINDOW]));
    let mut heard = 0;
    while heard < WINDOW {
        let Word::Way(_, Said::Bytes(bytes)) = host.word() else { panic!("it ended") };
        heard += bytes.len();
    }
    assert_eq!(heard, WINDOW);
    // A second connection is accepted in the meantime, before more data of the first is sent.
    let _second = TcpStream::connect((door.address, door.port)).expect("the door is open");
    let Word::Knock(other, _) = host.word() else { panic!("more than there was room for") };
    assert_ne!(number, other);
    doors.said(number, Said::Taken(10));
    let Word::Way(of, Said::Bytes(bytes)) = host.word() else { panic!("nothing was said") };
    assert_eq!((of, bytes.len()), (number, 10));
    doors.said(number, Said::Gone);
    let _ = flood.join();
}

#[test]
fn a_new_job_has_nothing_of_the_one_before() {
    let (mut doors, door, mut host) = opened();
    let mut guest = TcpStream::connect((door.address, door.port)).expect("the door is open");
    let Word::Knock(_, _) = host.word() else { panic!("nobody knocked") };
    let (_, theirs) = UnixStream::pair().expect("a pair");
    let line = Line::over(File::from(OwnedFd::from(theirs)));
    doors.open(&[door], &line).expect("the same door");
    assert_eq!(guest.read(&mut [0]).expect("it ends well"), 0);
    assert!(doors.open(&[], &line).is_err());
}

/// Programs that have ended: one closed its connection, one closed it with unread data, one was not yet accepted.
#[test]
fn what_was_said_last_is_passed_on() {
    let (doors, door, mut host) = opened();
    let connect = || TcpStream::connect((door.address, door.port)).expect("the door is open");
    let mut closes = connect();
    let Word::Knock(closed, _) = host.word() else { panic!("nobody knocked") };
    let mut hangs_up = connect();
    let Word::Knock(hung_up, _) = host.word() else { panic!("nobody knocked") };
    doors.said(hung_up, Said::Bytes(vec![0; 1000]));
    // The data has arrived but is not read, so closing the socket resets the connection.
    hangs_up.peek(&mut [0]).expect("it is open");
    for (stream, text) in [(&mut closes, "one"), (&mut hangs_up, "two")] {
        stream.write_all(text.as_bytes()).expect("it is open");
    }
    drop((closes, hangs_up));
    let mut late = connect();
    late.write_all(b"three").expect("it is open");
    drop(late);
    doors.last_words(Duration::from_secs(60));
    // All data has been forwarded by now, so closing the connections loses none of it.
    doors.cut();
    let mut said = HashMap::new();
    let mut ended = 0;
    while ended < 3 {
        match host.word() {
            Word::Way(of, Said::Bytes(bytes)) => said.entry(of).or_insert_with(Vec::new).extend(bytes),
            Word::Way(_, Said::End) => ended += 1,
            Word::Way(_, Said::Taken(_) | Said::Gone) | Word::Knock(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((said[&closed].as_slice(), said[&hung_up].as_slice(), said.len()), (&b"one"[..], &b"two"[..], 3));
}
