package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  @Test
  void anObjectHasItsFields() {
    Map<String, Object> wanted = new HashMap<>(Map.of("n", 9007199254740991L, "s", "é", "b", true));
    wanted.put("o", Map.of("a", List.of(1L, 1.5)));
    wanted.put("z", null);
    assertEquals(
        wanted,
        Json.object(
            "{\"n\":9007199254740991,\"s\":\"é\",\"b\":true,\"o\":{\"a\":[1,1.5]},\"z\":null}"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "leader: true",
        "[]",
        "{\"a\":1",
        "{\"a\":1}{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1e",
        "{\"a\":99999999999999999999}"
      })
  void whatIsNoObjectHasNone(String text) {
    assertEquals(Map.of(), Json.object(text));
  }
}
