import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";

/** A moment by two clocks, in milliseconds. */
export interface Moment {
  monotonic: number;
  /** Goes on while the machine sleeps, and is known to 10 ms. Undefined where there is none (outside Linux). */
  uptime: number | undefined;
}

export type Clock = () => Moment;

const RESOLUTION_MS = 10;

export function now(): Moment {
  return { monotonic: performance.now(), uptime: uptime() };
}

function uptime(): number | undefined {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1000;
  } catch {
    return undefined;
  }
}

/** Milliseconds from one moment to another: rather too many than too few. */
export function between(from: Moment, to: Moment): number {
  const monotonic = to.monotonic - from.monotonic;
  if (from.uptime === undefined || to.uptime === undefined) return monotonic;
  return Math.max(monotonic, to.uptime - from.uptime + RESOLUTION_MS);
}
