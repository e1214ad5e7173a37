package com.example.baton.spring;

import com.example.baton.JobAnswer;
import com.example.baton.JobHandler;
import com.example.baton.JobWork;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.springframework.http.MediaType;
import org.springframework.web.servlet.function.RequestPredicates;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerRequest;
import org.springframework.web.servlet.function.ServerResponse;

/** Where the sidecar's jobs come in, with Spring MVC. */
public final class JobRoutes {
  private static final MediaType TEXT = new MediaType("text", "plain", StandardCharsets.UTF_8);

  private JobRoutes() {}

  /**
   * Does a job's work when the sidecar asks for it. What is returned is to be a bean.
   *
   * @param path the path of the job's URL
   * @param work what is called for each attempt
   * @return a route, for requests of any method
   */
  public static RouterFunction<ServerResponse> job(String path, JobWork work) {
    JobHandler handler = new JobHandler(work);
    return RouterFunctions.route(RequestPredicates.path(path), request -> handle(handler, request));
  }

  private static ServerResponse handle(JobHandler handler, ServerRequest request)
      throws IOException {
    byte[] body = request.servletRequest().getInputStream().readAllBytes();
    JobAnswer answer = handler.handle(request.headers()::firstHeader, body);
    return ServerResponse.status(answer.status()).contentType(TEXT).body(answer.text());
  }
}
