/**
 * Leads, locks and jobs of the Baton sidecar: scopes that end before their validity does.
 *
 * @module
 */
export { Baton, type BatonOptions, Held, type LeadOptions, Lock } from "./baton.js";
export { BatonError, type Holder, LockHeld, Lost, Refused, Unreachable } from "./errors.js";
export { type JobHandler, type JobRun, jobHandler } from "./job.js";
export type { LockOptions, Scope } from "./sources.js";
