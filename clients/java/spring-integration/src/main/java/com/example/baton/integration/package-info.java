/**
 * Spring Integration's locks and leader events, by the Baton sidecar: {@link
 * com.example.baton.integration.BatonLockRegistry} and {@link
 * com.example.baton.integration.BatonLeaderInitiator}.
 */
package com.example.baton.integration;
