package com.example.baton.spring;

import java.net.URI;
import java.nio.file.Path;
import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * Where the sidecar is, and what it wants.
 *
 * @param url The sidecar's address. Else that of the variable BATON_URL, else
 *     http://127.0.0.1:4040.
 * @param tokenFile A file with the token that the sidecar wants, read for each request. Else that
 *     of the variable BATON_TOKEN_FILE, else none.
 */
@ConfigurationProperties("baton")
public record BatonProperties(URI url, Path tokenFile) {}
