import com.example.baton.Baton;
import com.example.baton.integration.BatonLock;
import com.example.baton.integration.BatonLockRegistry;
import java.util.concurrent.TimeUnit;

/** Works on an order while nobody else does. */
public class Orders {
  public static void main(String[] arguments) throws InterruptedException {
    BatonLockRegistry locks = new BatonLockRegistry(Baton.create(), "orders/");
    BatonLock lock = locks.obtain(42);
    if (lock.tryLock(5, TimeUnit.SECONDS)) {
      try {
        System.out.println("working on order 42 with token " + lock.token());
      } finally {
        lock.unlock();
      }
    }
  }
}
