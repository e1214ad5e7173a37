//! A program's output, line by line: bounded in all and in each line, and read on to its end whatever the bounds, so
//! that no program waits for a reader.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt};

/// What is longer is cut: a collector of logs would do it otherwise.
const LINE_BYTES_MAX: usize = 8 << 10;
/// How much is read at once while it is logged: as many lines as may be written without a pause for the other tasks.
const CHUNK_LOGGED: usize = 4 << 10;
/// How much is read at once while nothing is logged any more: what a pipe holds.
const CHUNK_DROPPED: usize = 64 << 10;

/// Where a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// The field's value in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The output of one program, of which at most so many bytes are handed to `sink`, line breaks counted.
pub struct Output<S> {
    left: AtomicU64,
    dropped: AtomicU64,
    sink: S,
}

impl<S: Fn(Stream, &str)> Output<S> {
    /// Nothing was read yet.
    pub fn new(bytes_max: u64, sink: S) -> Self {
        Self { left: AtomicU64::new(bytes_max), dropped: AtomicU64::new(0), sink }
    }

    /// Reads both streams to their ends.
    pub async fn log<O, E>(&self, stdout: Option<O>, stderr: Option<E>)
    where
        O: AsyncRead + Unpin,
        E: AsyncRead + Unpin,
    {
        tokio::join!(self.read(Stream::Stdout, stdout), self.read(Stream::Stderr, stderr));
    }

    /// How many bytes were not handed on, if any.
    pub fn dropped(&self) -> Option<u64> {
        Some(self.dropped.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    async fn read(&self, stream: Stream, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = vec![0; CHUNK_DROPPED];
        let mut line = Line::default();
        loop {
            let spent = self.left.load(Ordering::Relaxed) == 0;
            let room = if spent { CHUNK_DROPPED } else { CHUNK_LOGGED };
            let read = match pipe.read(&mut chunk[..room]).await {
                // A pipe that cannot be read has nothing more to say.
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            if spent {
                self.drop_bytes(line.forget() + read);
            } else {
                self.split(stream, &chunk[..read], &mut line);
            }
            // A flood is read as fast as it comes: the other tasks, renewals among them, go first.
            tokio::task::yield_now().await;
        }
        self.end(stream, &mut line, 0);
    }

    fn split(&self, stream: Stream, read: &[u8], line: &mut Line) {
        let mut parts = read.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            line.add(part);
            if parts.peek().is_some() {
                self.end(stream, line, 1);
            }
        }
    }

    /// Hands a line on, or what there is room for.
    fn end(&self, stream: Stream, line: &mut Line, line_break: usize) {
        let left = self.left.load(Ordering::Relaxed);
        let cost = line.bytes.len() + line_break;
        let room = usize::try_from(left).unwrap_or(usize::MAX);
        let shown = line.bytes.len().min(room);
        let cut = line.cut_bytes + line.bytes.len() - shown;
        if cost > 0 && room > 0 {
            (self.sink)(stream, &text(&line.bytes[..shown], cut > 0));
        }
        self.drop_bytes(if room > 0 { cut } else { cut + line_break });
        self.left.store(left.saturating_sub(u64::try_from(cost).unwrap_or(u64::MAX)), Ordering::Relaxed);
        line.forget();
    }

    fn drop_bytes(&self, bytes: usize) {
        self.dropped.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A line that has not ended.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// What it has beyond the bound.
    cut_bytes: usize,
}

impl Line {
    fn add(&mut self, part: &[u8]) {
        let taken = part.len().min(LINE_BYTES_MAX - self.bytes.len());
        self.bytes.extend_from_slice(&part[..taken]);
        self.cut_bytes += part.len() - taken;
    }

    /// Empties it, and says how long it was.
    fn forget(&mut self) -> usize {
        let length = self.bytes.len() + std::mem::take(&mut self.cut_bytes);
        self.bytes.clear();
        length
    }
}

/// A line for people: what is not UTF-8, and what would steer a terminal, is replaced.
fn text(bytes: &[u8], cut: bool) -> String {
    let bytes = if cut { whole_characters(bytes) } else { bytes.strip_suffix(b"\r").unwrap_or(bytes) };
    let shown = String::from_utf8_lossy(bytes);
    let harmless = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    shown.chars().map(harmless).chain(cut.then_some('…')).collect()
}

/// Without the beginning of a character whose end was cut off.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What is logged of these outputs, and how much is not.
    async fn logged(bytes_max: u64, stdout: &[u8], stderr: &[u8]) -> (Vec<(Stream, String)>, Option<u64>) {
        let lines = Mutex::new(Vec::new());
        let output = Output::new(bytes_max, |stream, line: &str| lines.lock().unwrap().push((stream, line.to_owned())));
        output.log(Some(stdout), Some(stderr)).await;
        let dropped = output.dropped();
        (lines.into_inner().unwrap(), dropped)
    }

    async fn lines(bytes_max: u64, stdout: &[u8]) -> (Vec<String>, Option<u64>) {
        let (lines, dropped) = logged(bytes_max, stdout, b"").await;
        (lines.into_iter().map(|(_, line)| line).collect(), dropped)
    }

    #[tokio::test]
    async fn lines_are_told_by_their_stream_and_the_last_needs_no_line_break() {
        let (lines, dropped) = logged(1_000, b"one\n\ntwo\r\nthree", b"oh\n").await;
        let of = |wanted| lines.iter().filter(move |(stream, _)| *stream == wanted).map(|(_, line)| line.as_str());
        assert_eq!(of(Stream::Stdout).collect::<Vec<_>>(), ["one", "", "two", "three"]);
        assert_eq!(of(Stream::Stderr).collect::<Vec<_>>(), ["oh"]);
        assert_eq!(dropped, None);
        assert_eq!(logged(1_000, b"", b"").await, (vec![], None));
    }

    #[tokio::test]
    async fn what_is_no_text_is_shown_all_the_same() {
        let (lines, _) = lines(1_000, b"caf\xc3\xa9 \xff\xfe\n\x1b[2Jx\ty\0\n").await;
        assert_eq!(lines, ["café \u{fffd}\u{fffd}", "\u{fffd}[2Jx\ty\u{fffd}"]);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_rest_of_it_counted() {
        let mut long = "é".repeat(LINE_BYTES_MAX).into_bytes();
        long.insert(0, b'-');
        long.extend(b"\nshort\n");
        let (lines, dropped) = lines(1_000_000, &long).await;
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), LINE_BYTES_MAX - 1 + "…".len(), "no half character");
        assert_eq!((lines[0].ends_with("é…"), lines[1].as_str()), (true, "short"));
        assert_eq!(dropped, Some(LINE_BYTES_MAX as u64 + 1));
    }

    #[tokio::test]
    async fn the_bound_in_all_counts_line_breaks_and_every_byte_is_logged_or_counted() {
        assert_eq!(lines(8, b"one\ntwo\n").await, (vec!["one".into(), "two".into()], None));
        assert_eq!(lines(7, b"one\ntwo\n").await, (vec!["one".into(), "two".into()], None));
        assert_eq!(lines(6, b"one\ntwo\n").await, (vec!["one".into(), "tw…".into()], Some(1)));
        assert_eq!(lines(4, b"one\ntwo\n").await, (vec!["one".into()], Some(4)));
        assert_eq!(lines(0, b"one\ntwo\n").await, (vec![], Some(8)));
        let (lines, dropped) = lines(100, &b"\n".repeat(50_000)).await;
        assert_eq!(lines.len(), 100, "empty lines cost as well");
        assert_eq!(dropped, Some(49_900));
    }
}
