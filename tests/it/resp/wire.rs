//! The port on raw sockets.

use crate::process::PATIENCE;
use std::io::{Read, Write};
use std::net::TcpStream;

/// A connection of raw bytes.
pub(super) struct Wire<S> {
    pub(super) stream: S,
}

impl Wire<TcpStream> {
    pub(super) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream }
    }
}

impl<S: Read + Write> Wire<S> {
    /// Sends a command; an error is the node's end.
    pub(super) fn send(&mut self, arguments: &[&str]) -> std::io::Result<()> {
        let mut out = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            out += &format!("${}\r\n{argument}\r\n", argument.len());
        }
        self.stream.write_all(out.as_bytes())?;
        self.stream.flush()
    }

    pub(super) fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return None,
            }
            if line.ends_with(b"\r\n") {
                line.truncate(line.len() - 2);
                return String::from_utf8(line).ok();
            }
        }
    }

    /// The next answer, its parts separated by a space; nothing where the node closed.
    pub(super) fn next(&mut self) -> Option<String> {
        let line = self.line()?;
        let count = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes().first()? {
            b'$' if count() >= 0 => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).ok()
            }
            b'*' if count() >= 0 => {
                let parts: Option<Vec<String>> = (0..count()).map(|_| self.next()).collect();
                Some(format!("[{}]", parts?.join(" ")))
            }
            _ => Some(line),
        }
    }

    pub(super) fn ask(&mut self, arguments: &[&str]) -> String {
        self.send(arguments).expect("the node takes it");
        self.next().expect("an answer")
    }

    pub(super) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // Closed, or reset where it sent more than was read.
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
