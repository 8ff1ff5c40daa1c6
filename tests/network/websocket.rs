//! WebSocket server, whose paths select its behaviour.

use std::io::{self, Read, Write};

use tungstenite::WebSocket;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Message, Role};

/// Answers the request of a client and the messages after it.
pub fn serve<S: Read + Write>(mut stream: S, path: &str, headers: &[String]) -> io::Result<()> {
    let value = |name: &str| {
        let found =
            headers.iter().filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    };
    let key = derive_accept_key(if path == "wrong-key" { b"other" } else { value("sec-websocket-key").as_bytes() });
    // The last protocol of the client is the one that the server knows.
    let protocol = value("sec-websocket-protocol").rsplit(", ").next().filter(|name| !name.is_empty());
    let protocol = protocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {key}\r\n{protocol}\r\n"
    );
    if path == "joined" {
        // The first message arrives with the head.
        stream.write_all(&[head.as_bytes(), b"\x81\x05hello"].concat())?;
    } else {
        stream.write_all(head.as_bytes())?;
    }
    stream.flush()?;
    match path {
        "masked" => stream.write_all(b"\x81\x81\0\0\0\0x").and_then(|()| stream.flush()),
        "invalid-text" => stream.write_all(b"\x81\x01\xff").and_then(|()| stream.flush()),
        "drop" => return Ok(()),
        _ => Ok(()),
    }?;
    let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
    converse(&mut socket, path, value("x-own")).or(Ok(()))
}

fn converse<S: Read + Write>(socket: &mut WebSocket<S>, path: &str, own: &str) -> Result<(), tungstenite::Error> {
    match path {
        "header" => socket.send(Message::text(own))?,
        "close" => {
            socket.close(Some(CloseFrame { code: CloseCode::Library(4001), reason: "go away".into() }))?;
        }
        "fragments" => {
            let part =
                |kind, text: &'static str, is_last| Message::Frame(Frame::message(text, OpCode::Data(kind), is_last));
            socket.send(part(Data::Text, "one ", false))?;
            socket.send(Message::Frame(Frame::message("in between", OpCode::Control(Control::Ping), true)))?;
            socket.send(part(Data::Continue, "two", true))?;
        }
        "many" => (0..1000).try_for_each(|number| socket.send(Message::text(number.to_string())))?,
        _ => {}
    }
    loop {
        match socket.read()? {
            message @ (Message::Text(_) | Message::Binary(_)) => socket.send(message)?,
            Message::Pong(payload) => {
                socket.send(Message::text(format!("pong {}", String::from_utf8_lossy(&payload))))?
            }
            _ => {}
        }
    }
}
