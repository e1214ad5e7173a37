package com.example.baton;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads the sidecar's answers. */
final class Json {
  private static final JsonFactory FACTORY =
      JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();

  private Json() {}

  /** The fields of an object; none if the text is no object. Whole numbers are {@code Long}s. */
  static Map<String, Object> object(String text) {
    try (JsonParser parser = FACTORY.createParser(text)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return Map.of();
      }
      Map<String, Object> fields = fields(parser);
      return parser.nextToken() == null ? fields : Map.of();
    } catch (IOException noJson) {
      return Map.of();
    }
  }

  /** A whole number; null if the text is none. */
  static Long whole(String text) {
    try {
      return Long.valueOf(text);
    } catch (NumberFormatException noNumber) {
      return null;
    }
  }

  private static Map<String, Object> fields(JsonParser parser) throws IOException {
    Map<String, Object> fields = new HashMap<>();
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      parser.nextToken();
      fields.put(name, value(parser));
    }
    return fields;
  }

  private static Object value(JsonParser parser) throws IOException {
    return switch (parser.currentToken()) {
      case START_OBJECT -> fields(parser);
      case START_ARRAY -> elements(parser);
      case VALUE_NUMBER_INT -> parser.getLongValue();
      case VALUE_NUMBER_FLOAT -> parser.getDoubleValue();
      case VALUE_TRUE -> true;
      case VALUE_FALSE -> false;
      case VALUE_NULL -> null;
      default -> parser.getText();
    };
  }

  private static List<Object> elements(JsonParser parser) throws IOException {
    List<Object> elements = new ArrayList<>();
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      elements.add(value(parser));
    }
    return elements;
  }
}
