/** ShedLock's locks, by the Baton sidecar: {@link com.example.baton.shedlock.BatonLockProvider}. */
package com.example.baton.shedlock;
