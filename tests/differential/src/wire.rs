//! One connection: frames out, frames in, and the three ways in which an answer can stay away.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What came back.
#[derive(Debug)]
pub enum Received {
    /// A frame, without its length.
    Frame(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// Nothing for the whole wait.
    Silent,
}

/// A connection to a broker.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// Connects to `address`.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(30)))?;
        Ok(Wire {
            stream,
            read: Vec::new(),
        })
    }

    /// Sends `frame` after its length. An error means the server closed the connection: reading will tell.
    pub fn send(&mut self, frame: &[u8]) {
        let mut bytes = Vec::with_capacity(4 + frame.len());
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
        self.send_raw(&bytes);
    }

    /// Sends `bytes` as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame, waiting at most `wait` for it.
    pub fn receive(&mut self, wait: Duration) -> Result<Received> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(length) = self.read.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if self.read.len() >= 4 + length {
                    let rest = self.read.split_off(4 + length);
                    let frame = std::mem::replace(&mut self.read, rest).split_off(4);
                    return Ok(Received::Frame(frame));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Received::Silent);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => self.read.extend(&chunk[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                        return Ok(Received::Closed);
                    }
                    _ => return Err(error.into()),
                },
            }
        }
    }
}
