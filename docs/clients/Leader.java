import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.regex.Pattern;

/** Works only while Baton promises that this replica leads: java Leader.java [URL of /leader/{role}] */
public class Leader {
    static final long STEP_MAX_NANOS = 200_000_000; // the longest that one step of the work takes
    static final Pattern ANSWER =
        Pattern.compile("\"leader\": *true.*\"token\": *(\\d+).*\"valid_for_ms\": *(\\d+)", Pattern.DOTALL);
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static volatile boolean stopping;

    static HttpRequest.Builder request(String url) {
        return HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(1));
    }

    /** {token, until when it may be used}, or null: no answer, or a strange one, means not the leader. */
    static long[] ask(String url) {
        long sent = System.nanoTime(); // the promise counts from before the request, however long the answer takes
        try {
            var response = CLIENT.send(request(url).build(), BodyHandlers.ofString());
            var answer = ANSWER.matcher(response.body());
            if (response.statusCode() != 200 || !answer.find()) return null;
            return new long[] {Long.parseLong(answer.group(1)), sent + Long.parseLong(answer.group(2)) * 1_000_000};
        } catch (Exception notAnswered) {
            return null;
        }
    }

    /** "resign" or "drained". A refusal only means that there was nothing to hand over. */
    static void tell(String url, String word) {
        try {
            var post = request(url + "/" + word).POST(BodyPublishers.noBody()).build();
            CLIENT.send(post, BodyHandlers.discarding());
        } catch (Exception notAnswered) { }
    }

    static void step(long token) throws InterruptedException {
        System.out.println("acting with token " + token); // hand it to whatever is written to: it refuses smaller ones
        Thread.sleep(50);
    }

    public static void main(String[] args) throws InterruptedException {
        String url = args.length > 0 ? args[0] : "http://127.0.0.1:4040/leader/scheduler";
        Thread work = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // on SIGTERM
            stopping = true;
            try { work.join(); } catch (InterruptedException ended) { }
        }));
        boolean led = false;
        while (!stopping) {
            long[] answer = ask(url);
            boolean may = answer != null && answer[1] - System.nanoTime() > STEP_MAX_NANOS;
            if (may) { led = true; step(answer[0]); continue; }
            if (led && answer == null) { led = false; tell(url, "drained"); } // the next leader need not wait
            Thread.sleep(200);
        }
        if (led) { tell(url, "resign"); tell(url, "drained"); }
    }
}
