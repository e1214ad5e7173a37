//! An app that says whether it is well.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// See the module. Its thread ends with the test's process.
pub struct App {
    port: u16,
    ill: Arc<AtomicBool>,
}

impl App {
    /// One that is well.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its own address").port();
        let ill = Arc::new(AtomicBool::new(false));
        let is_ill = Arc::clone(&ill);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let mut line = String::from("none yet");
                while !line.trim().is_empty() {
                    line.clear();
                    // A connection that breaks reads as the end of the request.
                    let _ = reader.read_line(&mut line);
                }
                let status = if is_ill.load(Ordering::Relaxed) { "503 Ill" } else { "200 Well" };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                // Who asked may have gone.
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { port, ill }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on it is not well.
    pub fn fall_ill(&self) {
        self.ill.store(true, Ordering::Relaxed);
    }
}
