//! Log lines on their way out: taken at once from whoever logs, and written by a thread of their own. A pipe that
//! nobody reads blocks that thread and no other. What finds no room meanwhile is dropped, and how much that was is told
//! when lines go through again.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How many lines may wait: what as many roles as there may be have to say when their store is lost and found.
const LINES_MAX: usize = 4_096;
/// How many bytes the lines may have that are not written yet. A line of a job's program may be one of 8 KiB.
const BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Default)]
pub(super) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// Of these, and of those that the thread has taken and not written yet.
    bytes: usize,
    /// The thread has taken some, and is not through.
    being_written: bool,
    /// Since the process began.
    dropped: u64,
}

impl LogQueue {
    /// A queue that is written to `out`. `tell_dropped` is called with the number of lines that were dropped, each time
    /// that lines go through again after that.
    pub(super) fn start(
        mut out: impl Write + Send + 'static,
        tell_dropped: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Self::default();
        let reader = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut told = 0;
            loop {
                let (lines, dropped) = reader.take();
                let mut go_through = false;
                for line in lines {
                    let is_written = out.write_all(&line).is_ok();
                    reader.done(line.len(), is_written);
                    go_through |= is_written;
                }
                let _ = out.flush();
                // While standard error is gone, nobody can be told, and to try would never end.
                if go_through && dropped > told {
                    tell_dropped(dropped - told);
                    told = dropped;
                }
            }
        })?;
        Ok(queue)
    }

    /// Waits until every line has been written, but no longer than `bound`.
    pub(super) fn flush(&self, bound: Duration) {
        let open = |waiting: &mut Waiting| waiting.being_written || !waiting.lines.is_empty();
        // In time or not: the process ends either way.
        let _ = self.0.written.wait_while_for(&mut self.lock(), open, bound);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock()
    }

    /// Waits for lines. Returns them, and how many were dropped until now.
    fn take(&self) -> (VecDeque<Vec<u8>>, u64) {
        let mut waiting = self.lock();
        waiting.being_written = false;
        self.0.written.notify_all();
        let idle = |waiting: &mut Waiting| waiting.lines.is_empty();
        self.0.filled.wait_while(&mut waiting, idle);
        waiting.being_written = true;
        (std::mem::take(&mut waiting.lines), waiting.dropped)
    }

    /// A line that was taken has been written, or could not be.
    fn done(&self, bytes: usize, is_written: bool) {
        let mut waiting = self.lock();
        waiting.bytes -= bytes;
        waiting.dropped += u64::from(!is_written);
    }
}

/// Takes a line with each call.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lock();
        if waiting.lines.len() < LINES_MAX && waiting.bytes + line.len() <= BYTES_MAX {
            waiting.bytes += line.len();
            waiting.lines.push_back(line.to_vec());
            self.0.filled.notify_one();
        } else {
            waiting.dropped += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A pipe without any room: whoever writes waits for its reader.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8(line.to_vec()).unwrap();
            self.0.send(line.clone()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn piped() -> (LogQueue, Receiver<String>, Receiver<u64>) {
        let (pipe, lines) = sync_channel(0);
        let (tell, told) = sync_channel(10);
        (LogQueue::start(Pipe(pipe), move |dropped| tell.send(dropped).unwrap()).unwrap(), lines, told)
    }

    #[test]
    fn who_logs_never_waits_and_what_found_no_room_is_counted() {
        let (mut queue, lines, told) = piped();
        let all = LINES_MAX * 3;
        queue.write_all(b"0").unwrap();
        // From here on the thread waits for somebody to read.
        while !queue.lock().being_written {
            thread::yield_now();
        }
        for n in 1..all {
            queue.write_all(format!("{n}").as_bytes()).unwrap();
        }
        let dropped = queue.lock().dropped;
        assert_eq!(usize::try_from(dropped).unwrap(), all - 1 - LINES_MAX);
        let kept: Vec<usize> = lines.iter().take(all - dropped as usize).map(|line| line.parse().unwrap()).collect();
        assert_eq!(kept, (0..kept.len()).collect::<Vec<_>>(), "the first are kept, in their order");
        assert_eq!(told.recv().unwrap(), dropped);
    }

    #[test]
    fn long_lines_take_no_more_memory_than_they_may_those_that_are_being_written_included() {
        let (mut queue, lines, told) = piped();
        let line = [b'.'; 8 << 10];
        queue.write_all(&line).unwrap();
        while !queue.lock().being_written {
            thread::yield_now();
        }
        let room = BYTES_MAX / line.len();
        for _ in 1..room + 3 {
            queue.write_all(&line).unwrap();
        }
        assert_eq!(queue.lock().dropped, 3);
        assert_eq!(lines.iter().take(room).map(|line| line.len()).sum::<usize>(), BYTES_MAX);
        assert_eq!(told.recv().unwrap(), 3);
        queue.flush(Duration::from_secs(60));
        assert_eq!(queue.lock().bytes, 0, "there is room again");
    }

    #[test]
    fn a_line_that_cannot_be_written_counts_as_dropped_and_is_told_of_when_lines_go_through_again() {
        /// A disk that is full until this is true.
        struct Disk(Arc<AtomicBool>);

        impl Write for Disk {
            fn write(&mut self, line: &[u8]) -> io::Result<usize> {
                self.0.load(Ordering::Relaxed).then_some(line.len()).ok_or(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let (has_room, (tell, told)) = (Arc::<AtomicBool>::default(), sync_channel(10));
        let disk = Disk(Arc::clone(&has_room));
        let mut queue = LogQueue::start(disk, move |dropped| tell.send(dropped).unwrap()).unwrap();
        for _ in 0..2 {
            queue.write_all(b"a").unwrap();
            queue.flush(Duration::from_secs(60));
        }
        assert_eq!(queue.lock().dropped, 2);
        assert_eq!(queue.lock().bytes, 0);
        has_room.store(true, Ordering::Relaxed);
        queue.write_all(b"b").unwrap();
        assert_eq!(told.recv().unwrap(), 2);
    }

    #[test]
    fn a_flush_ends_when_all_is_written_and_also_when_nobody_reads() {
        let (mut queue, lines, _told) = piped();
        queue.write_all(b"a").unwrap();
        queue.flush(Duration::from_millis(50));
        let reader = thread::spawn(move || lines.recv().unwrap());
        queue.flush(Duration::from_secs(60));
        assert!(reader.is_finished() || reader.join().unwrap() == "a");
        let waiting = queue.lock();
        assert!(waiting.lines.is_empty() && !waiting.being_written);
    }
}
