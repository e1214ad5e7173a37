package com.example.baton;

/**
 * What the sidecar is answered.
 *
 * @param status the status of HTTP: 200, 400, 409 or 500
 * @param text the body, {@code text/plain; charset=utf-8}
 */
public record JobAnswer(int status, String text) {}
