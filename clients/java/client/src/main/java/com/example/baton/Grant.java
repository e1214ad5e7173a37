package com.example.baton;

/**
 * What the first line of a connection has named.
 *
 * @param hold the connection
 * @param id how the sidecar is asked about it
 * @param token the fencing token
 * @param validityNanos about how long answers are good for. Nothing is counted by this
 */
record Grant(Hold hold, String id, long token, long validityNanos) {}
