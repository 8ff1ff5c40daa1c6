use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use codebox_agent::frame::Decoder;

use super::*;

/// The host's end of the connection to the agent.
struct Host {
    socket: UnixStream,
    decoder: Decoder,
}

impl Host {
    fn next_event(&mut self) -> Event {
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("the length is valid") {
                return Event::decode(frame).expect("the event is valid");
            }
            let mut buffer = vec![0; 64 << 10];
            let count = self.socket.read(&mut buffer).expect("the socket is open");
            assert_ne!(count, 0, "the line has ended");
            self.decoder.push(&buffer[..count]);
        }
    }
}

fn free_port_forward() -> PortForward {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    PortForward { address: Ipv4Addr::LOCALHOST, port: listener.local_addr().expect("the listener is bound").port() }
}

fn open_forwarder() -> (PortForwarder, PortForward, Host) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let writer = EventWriter::from_file(File::from(OwnedFd::from(theirs)));
    let (mut port_forwards, port_forward) = (PortForwarder::default(), free_port_forward());
    port_forwards.open(&[port_forward], &writer).expect("the port is free");
    (port_forwards, port_forward, Host { socket: ours, decoder: Decoder::new(Event::MAX_PAYLOAD_SIZE) })
}

#[test]
fn forwards_bytes_in_both_directions() {
    let (port_forwards, port_forward, mut host) = open_forwarder();
    let mut guest = TcpStream::connect((port_forward.address, port_forward.port)).expect("the port is open");
    let Event::Accepted(number, 0) = host.next_event() else { panic!("expected a connection") };
    guest.write_all(b"question").expect("the socket is open");
    guest.shutdown(Shutdown::Write).expect("the socket is open");
    let mut received = Vec::new();
    loop {
        match host.next_event() {
            Event::Connection(of, StreamEvent::Bytes(bytes)) if of == number => received.extend(bytes),
            Event::Connection(of, StreamEvent::End) if of == number => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, b"question");
    port_forwards.stream_event(number, StreamEvent::Bytes(b"answer".to_vec()));
    port_forwards.stream_event(number, StreamEvent::End);
    let mut answer = Vec::new();
    guest.read_to_end(&mut answer).expect("it ends");
    assert_eq!(answer, b"answer");
    assert_eq!(host.next_event(), Event::Connection(number, StreamEvent::WindowUpdate(6)));
}

#[test]
fn stops_reading_when_the_window_is_full() {
    let (port_forwards, port_forward, mut host) = open_forwarder();
    let guest = TcpStream::connect((port_forward.address, port_forward.port)).expect("the port is open");
    let Event::Accepted(number, _) = host.next_event() else { panic!("expected a connection") };
    let mut guest_writer = guest.try_clone().expect("the socket is duplicated");
    let flood = thread::spawn(move || guest_writer.write_all(&vec![7; 4 * WINDOW]));
    let mut received = 0;
    while received < WINDOW {
        let Event::Connection(_, StreamEvent::Bytes(bytes)) = host.next_event() else { panic!("it ended") };
        received += bytes.len();
    }
    assert_eq!(received, WINDOW);
    // A second connection is accepted in the meantime, before more data of the first is sent.
    let _second = TcpStream::connect((port_forward.address, port_forward.port)).expect("the port is open");
    let Event::Accepted(other, _) = host.next_event() else { panic!("expected a second connection") };
    assert_ne!(number, other);
    port_forwards.stream_event(number, StreamEvent::WindowUpdate(10));
    let Event::Connection(of, StreamEvent::Bytes(bytes)) = host.next_event() else {
        panic!("expected connection data")
    };
    assert_eq!((of, bytes.len()), (number, 10));
    port_forwards.stream_event(number, StreamEvent::Closed);
    let _ = flood.join();
}

#[test]
fn closes_connections_of_the_previous_job() {
    let (mut port_forwards, port_forward, mut host) = open_forwarder();
    let mut guest = TcpStream::connect((port_forward.address, port_forward.port)).expect("the port is open");
    let Event::Accepted(_, _) = host.next_event() else { panic!("expected a connection") };
    let (_, theirs) = UnixStream::pair().expect("a pair");
    let writer = EventWriter::from_file(File::from(OwnedFd::from(theirs)));
    port_forwards.open(&[port_forward], &writer).expect("the port forward opens");
    assert_eq!(guest.read(&mut [0]).expect("the connection is closed"), 0);
    assert!(port_forwards.open(&[], &writer).is_err());
}

/// Programs that have ended: one closed its connection, one closed it with unread data, one was not yet accepted.
#[test]
fn flush_forwards_data_of_ended_programs() {
    let (port_forwards, port_forward, mut host) = open_forwarder();
    let connect = || TcpStream::connect((port_forward.address, port_forward.port)).expect("the port is open");
    let mut closes = connect();
    let Event::Accepted(closed, _) = host.next_event() else { panic!("expected a connection") };
    let mut hangs_up = connect();
    let Event::Accepted(hung_up, _) = host.next_event() else { panic!("expected a connection") };
    port_forwards.stream_event(hung_up, StreamEvent::Bytes(vec![0; 1000]));
    // The data has arrived but is not read, so closing the socket resets the connection.
    hangs_up.peek(&mut [0]).expect("the socket is open");
    for (stream, text) in [(&mut closes, "one"), (&mut hangs_up, "two")] {
        stream.write_all(text.as_bytes()).expect("the socket is open");
    }
    drop((closes, hangs_up));
    let mut late = connect();
    late.write_all(b"three").expect("the socket is open");
    drop(late);
    port_forwards.flush(Duration::from_secs(60));
    // All data has been forwarded by now, so closing the connections loses none of it.
    port_forwards.close_all();
    let mut stream_event = HashMap::new();
    let mut ended = 0;
    while ended < 3 {
        match host.next_event() {
            Event::Connection(of, StreamEvent::Bytes(bytes)) => {
                stream_event.entry(of).or_insert_with(Vec::new).extend(bytes)
            }
            Event::Connection(_, StreamEvent::End) => ended += 1,
            Event::Connection(_, StreamEvent::WindowUpdate(_) | StreamEvent::Closed) | Event::Accepted(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        (stream_event[&closed].as_slice(), stream_event[&hung_up].as_slice(), stream_event.len()),
        (&b"one"[..], &b"two"[..], 3)
    );
}
