import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.StringJoiner;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson behind the line protocol of ../README.md. Its defaults, besides the lease. */
public final class Peer {
    private static RedissonClient redisson;

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        if (!args[0].equals("lock")) {
            config.setLockWatchdogTimeout(Long.parseLong(args[4]));
        }
        config.useSingleServer().setAddress("redis://" + args[1]);
        redisson = Redisson.create(config);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        if (args[0].equals("elect")) {
            elect(lines, redisson.getLock(args[2]));
        } else if (args[0].equals("hold")) {
            hold(lines, redisson.getFencedLock(args[2]));
        } else {
            lock(lines);
        }
        // The harness is gone: nobody waits for an orderly end.
        Runtime.getRuntime().halt(0);
    }

    /** Redisson has no elections; its lock without a lease, which its watchdog renews, is what people use as one. */
    private static void elect(BufferedReader lines, RLock lock) throws Exception {
        LinkedBlockingQueue<String> orders = new LinkedBlockingQueue<>();
        // A lock belongs to its thread.
        Thread campaigner = new Thread(() -> {
            try {
                while (true) {
                    lock.lock();
                    say("leading");
                    orders.take();
                    lock.unlock();
                    say("resigned");
                    orders.take();
                }
            } catch (Exception e) {
                fail(e);
            }
        });
        campaigner.setDaemon(true);
        campaigner.start();
        say("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("left")) {
                say("left " + lock.remainTimeToLive());
            } else {
                orders.add(line);
            }
        }
    }

    /** Campaigns with a fenced lock that the watchdog renews, and asks Redis whether it is still held. */
    private static void hold(BufferedReader lines, RFencedLock lock) throws Exception {
        SynchronousQueue<String> questions = new SynchronousQueue<>();
        // A lock belongs to its thread, which hears no questions while it waits for the lock.
        Thread holder = new Thread(() -> {
            while (true) {
                try {
                    long token = lock.lockAndGetToken();
                    boolean isHeld = true;
                    while (isHeld) {
                        questions.take();
                        isHeld = answer(lock, token);
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    rest(50);
                }
            }
        });
        holder.setDaemon(true);
        holder.start();
        say("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!questions.offer(line)) {
                say("no");
            }
        }
    }

    private static boolean answer(RFencedLock lock, long token) {
        try {
            boolean isHeld = lock.isHeldByCurrentThread();
            say(isHeld ? "yes " + token + " -" : "no");
            return isHeld;
        } catch (RuntimeException e) {
            // Redis cannot be asked: it may be held, or not.
            e.printStackTrace();
            say("no");
            return true;
        }
    }

    private static void lock(BufferedReader lines) throws Exception {
        say("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            run(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), words[4], Long.parseLong(words[5]));
        }
    }

    private static void run(String kind, int contenders, long spanMs, String name, long restMs) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(spanMs);
        long[] cycles = new long[contenders];
        long[] longest = new long[contenders];
        Thread[] threads = new Thread[contenders];
        for (int i = 0; i < contenders; i++) {
            int at = i;
            RLock lock = switch (kind) {
                case "own" -> redisson.getLock(name + ":" + at);
                case "fair" -> redisson.getFairLock(name);
                default -> redisson.getLock(name);
            };
            threads[i] = new Thread(() -> {
                for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
                    lock.lock();
                    long got = System.nanoTime();
                    lock.unlock();
                    if (got < end) {
                        cycles[at]++;
                    }
                    longest[at] = Math.max(longest[at], got - asked);
                    rest(restMs);
                }
            });
            threads[i].start();
        }
        long longestNs = 0;
        StringJoiner all = new StringJoiner(" ");
        for (int i = 0; i < contenders; i++) {
            threads[i].join();
            longestNs = Math.max(longestNs, longest[i]);
            all.add(Long.toString(cycles[i]));
        }
        say("done " + longestNs / 1e6 + " " + all);
    }

    private static void rest(long ms) {
        try {
            if (ms > 0) {
                Thread.sleep(ms);
            }
        } catch (InterruptedException e) {
            fail(e);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void fail(Exception e) {
        e.printStackTrace();
        Runtime.getRuntime().halt(1);
    }
}
