/**
 * Work while this replica leads, locks, and the work of jobs, with the Baton sidecar.
 *
 * <p>{@link com.example.baton.Baton} is where to begin.
 */
package com.example.baton;
