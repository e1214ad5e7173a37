import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's LeaderLatch behind the line protocol of ../README.md. The lease is the session's timeout. */
public final class Peer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[1])
                .sessionTimeoutMs(Integer.parseInt(args[4]))
                .retryPolicy(new ExponentialBackoffRetry(100, 10))
                .build();
        client.start();
        client.blockUntilConnected();
        String path = "/" + args[2];
        if (args[0].equals("hold")) {
            hold(client, new LeaderLatch(client, path, args[3]));
        }
        LeaderLatch latch = campaign(client, path, args[3]);
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            switch (line) {
                case "resign" -> {
                    latch.close();
                    say("resigned");
                }
                case "campaign" -> latch = campaign(client, path, args[3]);
                // ZooKeeper does not tell how much of another's session is left.
                default -> say("left unknown");
            }
        }
        // The harness is gone: nobody waits for an orderly end.
        Runtime.getRuntime().halt(0);
    }

    private static LeaderLatch campaign(CuratorFramework client, String path, String identity) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, path, identity);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                say("leading");
            }

            @Override
            public void notLeader() {}
        });
        latch.start();
        return latch;
    }

    /** Answers whether the latch has leadership; the token is the transaction that made its node. */
    private static void hold(CuratorFramework client, LeaderLatch latch) throws Exception {
        latch.start();
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String known = null;
        long token = 0;
        while (lines.readLine() != null) {
            String path = latch.getOurPath();
            if (latch.hasLeadership() && path != null && !path.equals(known)) {
                try {
                    token = client.checkExists().forPath(path).getCzxid();
                    known = path;
                } catch (Exception e) {
                    e.printStackTrace();
                }
            }
            // Asked again, since the node may have taken its time.
            say(latch.hasLeadership() && path != null && path.equals(known) ? "yes " + token + " -" : "no");
        }
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
