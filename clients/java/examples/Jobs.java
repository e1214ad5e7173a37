import com.example.baton.JobHandler;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/** Does what the sidecar's job at http://127.0.0.1:8080/jobs/nightly asks for. */
public class Jobs {
  public static void main(String[] arguments) throws Exception {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    int port = Integer.getInteger("port", 8080);
    HttpServer server = HttpServer.create(new InetSocketAddress(loopback, port), 0);
    server.createContext(
        "/jobs/nightly",
        new JobHandler(run -> "the report of " + run.scheduledTime() + ", token " + run.token()));
    server.start();
  }
}
