import com.example.baton.Baton;
import com.example.baton.shedlock.BatonLockProvider;
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.support.LockException;

/** A long task, at which one replica works. */
public class Nightly {
  public static void main(String[] arguments) throws InterruptedException {
    LockingTaskExecutor executor =
        new DefaultLockingTaskExecutor(new BatonLockProvider(Baton.create()));
    while (true) {
      LockConfiguration nightly =
          new LockConfiguration(
              Instant.now(), "nightly", Duration.ofMinutes(10), Duration.ofSeconds(1));
      try {
        executor.executeWithLock((Runnable) Nightly::work, nightly);
      } catch (LockException noSidecar) {
        System.out.println(noSidecar.getMessage());
      }
      Thread.sleep(500);
    }
  }

  private static void work() {
    try {
      for (int step = 0; step < 100; step++) {
        System.out.println("acting with token " + BatonLockProvider.currentToken());
        Thread.sleep(500);
      }
    } catch (InterruptedException | LockException over) {
      System.out.println("the lock is over");
    }
  }
}
