import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.support.ShortKeepAlive;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

/**
 * ShedLock behind the line protocol of ../README.md: a task of some steps, again and again, under a lock that is kept
 * alive. A task that has begun is told nothing of its lock.
 */
public final class Peer {
    private static final int STEPS = 10;

    public static void main(String[] args) throws Exception {
        String[] hostAndPort = args[1].split(":");
        JedisConnectionFactory redis = new JedisConnectionFactory(
                new RedisStandaloneConfiguration(hostAndPort[0], Integer.parseInt(hostAndPort[1])));
        redis.afterPropertiesSet();
        redis.start();
        Duration lease = Duration.ofMillis(Long.parseLong(args[4]));
        // Who has lost its lock neither extends nor releases another's.
        RedisLockProvider provider = new RedisLockProvider.Builder(redis).safeUpdate(true).build();
        LockProvider locks = ShortKeepAlive.of(provider, lease);
        Optional<SimpleLock> lock = Optional.empty();
        int stepsLeft = 0;
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            try {
                if (stepsLeft > 0) {
                    stepsLeft--;
                } else if (lock.isPresent()) {
                    SimpleLock held = lock.get();
                    lock = Optional.empty();
                    held.unlock();
                } else {
                    lock = locks.lock(new LockConfiguration(Instant.now(), args[2], lease, Duration.ZERO));
                    stepsLeft = lock.isPresent() ? STEPS - 1 : 0;
                }
            } catch (RuntimeException e) {
                e.printStackTrace();
            }
            say(lock.isPresent() ? "yes - -" : "no");
        }
        // The harness is gone: nobody waits for an orderly end.
        Runtime.getRuntime().halt(0);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
