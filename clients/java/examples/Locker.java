import com.example.baton.Baton;
import com.example.baton.HeldLock;
import com.example.baton.LockHeldException;
import com.example.baton.LockOptions;
import java.time.Duration;

/** Works on an order while nobody else does. */
public class Locker {
  public static void main(String[] arguments) throws InterruptedException {
    LockOptions options =
        LockOptions.DEFAULT.withMaxWait(Duration.ofSeconds(5)).withOwner("worker-7");
    try (HeldLock lock = Baton.create().lock("orders/42", options)) {
      System.out.println("working on order 42 with token " + lock.token());
    } catch (LockHeldException held) {
      System.out.println("another works on it: " + held.holder());
    }
  }
}
