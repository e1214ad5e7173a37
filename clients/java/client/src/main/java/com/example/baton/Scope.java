package com.example.baton;

/** Who acts upon a lead. */
public enum Scope {
  /**
   * Others in the pod may act upon what this process was told, and outlive it: a child, a program
   * that it started, another container.
   */
  POD,

  /**
   * No process but this one acts upon the lead. Then a handover waits for nothing when it is
   * killed.
   */
  PROCESS
}
