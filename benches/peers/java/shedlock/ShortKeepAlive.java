package net.javacrumbs.shedlock.support;

import java.time.Duration;
import java.util.concurrent.Executors;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockProvider;

/** ShedLock's keep-alive for less than the thirty seconds that it insists on, as its own tests have it. */
public final class ShortKeepAlive {
    private ShortKeepAlive() {}

    public static LockProvider of(ExtensibleLockProvider wrapped, Duration least) {
        return new KeepAliveLockProvider(wrapped, Executors.newSingleThreadScheduledExecutor(), least);
    }
}
