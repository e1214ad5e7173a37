package com.example.baton.spring;

import com.example.baton.Baton;
import com.example.baton.Lead;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.UndeclaredThrowableException;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.EmbeddedValueResolverAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.util.ReflectionUtils;
import org.springframework.util.StringValueResolver;

/** Finds the methods with {@link Leading}, and runs them from the context's start to its end. */
final class LeadingMethods
    implements BeanPostProcessor, EmbeddedValueResolverAware, SmartLifecycle {
  private final ObjectProvider<Baton> baton;
  private final ApplicationEventPublisher events;
  private final Map<String, LeadingMethod> byRole = new TreeMap<>();
  private StringValueResolver values;
  private CountDownLatch working = new CountDownLatch(0);
  private boolean running;

  LeadingMethods(ObjectProvider<Baton> baton, ApplicationEventPublisher events) {
    this.baton = baton;
    this.events = events;
  }

  @Override
  public void setEmbeddedValueResolver(StringValueResolver resolver) {
    values = resolver;
  }

  @Override
  public Object postProcessAfterInitialization(Object bean, String beanName) {
    MethodIntrospector.MetadataLookup<Leading> lookup =
        method -> AnnotatedElementUtils.findMergedAnnotation(method, Leading.class);
    MethodIntrospector.selectMethods(AopUtils.getTargetClass(bean), lookup)
        .forEach((method, leading) -> add(bean, method, leading));
    return bean;
  }

  private synchronized void add(Object bean, Method method, Leading leading) {
    Class<?>[] parameters = method.getParameterTypes();
    boolean takesLead = parameters.length == 1 && parameters[0] == Lead.class;
    if (!takesLead && parameters.length != 0) {
      throw new IllegalStateException(
          "@Leading: " + method + " takes other than a Lead, or nothing");
    }
    Method invocable = AopUtils.selectInvocableMethod(method, bean.getClass());
    ReflectionUtils.makeAccessible(invocable);
    String role = values.resolveStringValue(leading.value());
    Duration fixedDelay =
        DurationStyle.detectAndParse(values.resolveStringValue(leading.fixedDelay()));
    LeadingMethod.Work work =
        lead -> invoke(invocable, bean, takesLead ? new Object[] {lead} : new Object[0]);
    LeadingMethod added =
        new LeadingMethod(role, leading.scope(), fixedDelay, work, baton::getObject, events);
    if (byRole.putIfAbsent(role, added) != null) {
      throw new IllegalStateException(
          "@Leading: " + method + " is the second method of the role " + role);
    }
  }

  private static void invoke(Method method, Object bean, Object[] arguments) throws Exception {
    try {
      method.invoke(bean, arguments);
    } catch (InvocationTargetException thrown) {
      if (thrown.getCause() instanceof Exception exception) {
        throw exception;
      }
      // What a thread of Spring's own scheduler would log and outlive, too.
      throw new UndeclaredThrowableException(thrown.getCause());
    }
  }

  /** Each role that has a method. */
  synchronized Collection<LeadingMethod> all() {
    return byRole.values();
  }

  @Override
  public synchronized void start() {
    running = true;
    CountDownLatch ending = new CountDownLatch(byRole.size());
    working = ending;
    byRole.values().forEach(method -> method.start(ending::countDown));
  }

  @Override
  public synchronized void stop() {
    running = false;
    byRole.values().forEach(LeadingMethod::stop);
  }

  /** The context waits for the work to stop, for as long as it waits for its other parts. */
  @Override
  public void stop(Runnable callback) {
    stop();
    CountDownLatch ending = working;
    Thread waits =
        new Thread(
            () -> {
              try {
                ending.await();
              } catch (InterruptedException neverSent) {
                throw new AssertionError(neverSent);
              }
              callback.run();
            },
            "baton leading ends");
    waits.setDaemon(true);
    waits.start();
  }

  @Override
  public synchronized boolean isRunning() {
    return running;
  }
}
