/** What any call of this package throws for the sidecar's sake. */
export class BatonError extends Error {
  override name = "BatonError";
}

/** There is no sidecar at the address, or it does not answer in time. */
export class Unreachable extends BatonError {
  override name = "Unreachable";
}

/** A lead or a lock is over: nothing may be done in its name any more. It is the reason of the signal, too. */
export class Lost extends BatonError {
  override name = "Lost";
}

/** Who holds a lock, as far as that is known. */
export interface Holder {
  owner: string | null;
  identity: string;
  token: number;
  /** Milliseconds until its lease ends if it is not renewed. */
  ends_in_ms: number;
}

/** The sidecar refuses a request. */
export class Refused extends BatonError {
  override name = "Refused";
  /** What it is, for programs: `unknown-role`. */
  readonly type: string;
  /** What it is, for people. */
  readonly detail: string;

  constructor(
    /** The status of HTTP. */
    readonly status: number,
    problem: Record<string, unknown>,
  ) {
    const type = String(problem.type ?? "about:blank").replace(/^urn:baton:problem:/, "");
    const detail = String(problem.detail ?? "");
    super(`${status} ${type}: ${detail}`);
    this.type = type;
    this.detail = detail;
  }
}

/** Another holds the lock, and the time to wait is over. */
export class LockHeld extends Refused {
  override name = "LockHeld";
  readonly holder: Holder | undefined;

  constructor(status: number, problem: Record<string, unknown>) {
    super(status, problem);
    this.holder = (problem.holder as Holder | null) ?? undefined;
  }
}
