package com.example.baton.spring;

import com.example.baton.Lead;
import com.example.baton.Scope;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The bean's method runs while this replica leads the role: again and again, in one thread of its
 * own, with a pause in between. Each role has one such method.
 *
 * <p>The method takes the {@link Lead}, or nothing. It reads the token from it for each thing that
 * it writes. When the lead is over, the thread is interrupted, and the sidecar is told that the
 * work has stopped when the method has returned. What it throws while it leads is logged, and it is
 * called again after the pause.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Leading {
  /**
   * The role.
   *
   * @return a role of the sidecar's configuration; placeholders are resolved
   */
  String value();

  /**
   * The pause between two calls.
   *
   * @return a duration such as {@code 500ms} or {@code PT1S}; placeholders are resolved
   */
  String fixedDelay() default "1s";

  /**
   * Who acts upon the lead.
   *
   * @return {@link Scope#PROCESS} if no other process does
   */
  Scope scope() default Scope.POD;
}
