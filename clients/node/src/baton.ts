import { Claim } from "./claim.js";
import { type Clock, now } from "./clock.js";
import { Lost } from "./errors.js";
import { Endpoint } from "./http.js";
import { type LockOptions, LockSource, Role, type Scope } from "./sources.js";

/** Where the sidecar is. */
export interface BatonOptions {
  /** Its address; else that of the variable `BATON_URL`, else `http://127.0.0.1:4040`. */
  url?: string;
  /** A file with the token that it wants, read for each request; else that of `BATON_TOKEN_FILE`, else none. */
  tokenFile?: string;
}

export interface LeadOptions {
  /** `process` if no program that this process starts acts upon the lead; `pod` without it. */
  scope?: Scope;
  /**
   * Milliseconds before the end of what is promised at which the lead is over: the longest that a step takes. A tenth
   * of what is promised at once, and at least 20, without it.
   */
  margin?: number;
  /** Ends the wait for a lead. Work that leads looks at it itself: the lead is kept until it has stopped. */
  signal?: AbortSignal;
}

/** A lead, or a lock. */
export class Held {
  /** @internal */
  constructor(protected readonly claim: Claim) {}

  /**
   * The fencing token. Read it each time that something is written with it: reading it is the check.
   *
   * @throws {@link Lost} when it is over.
   */
  get token(): number {
    return this.claim.token;
  }

  /** Aborted, with a {@link Lost}, when it is over. */
  get signal(): AbortSignal {
    return this.claim.signal;
  }

  /** Milliseconds until it is over, if no more are promised; 0 when it is. */
  left(): number {
    return this.claim.left();
  }
}

/** A lock that is held until it is released, or lost. */
export class Lock extends Held {
  #released: Promise<void> | undefined;

  /** Gives it back. */
  release(): Promise<void> {
    this.#released ??= this.claim.leave();
    return this.#released;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/** The sidecar of this pod. */
export class Baton {
  readonly #endpoint: Endpoint;
  readonly #clock: Clock;

  /** Asks nothing yet. */
  constructor(options: BatonOptions = {}, clock: Clock = now) {
    this.#endpoint = new Endpoint(options.url, options.tokenFile);
    this.#clock = clock;
  }

  /**
   * Waits until this replica leads, and calls the work. When what that returned has settled, the sidecar is told that
   * the work has stopped. If the lead was over by then, the next one is waited for and the work called again, unless it
   * has failed for another reason than that.
   *
   * @returns what the work returned while it led.
   * @throws {@link Refused} if there is no such role, or the sidecar does not let this app in.
   */
  async leading<T>(role: string, work: (lead: Held) => Promise<T>, options: LeadOptions = {}): Promise<T> {
    const source = new Role(this.#endpoint, role, options.scope ?? "pod");
    for (;;) {
      const claim = await Claim.wait(source, this.#clock, options.margin, options.signal);
      let isOver = false;
      try {
        const result = await work(new Held(claim));
        isOver = claim.left() === 0;
        if (!isOver) return result;
      } catch (error) {
        isOver = claim.left() === 0;
        const isOfLoss = error instanceof Lost || (error instanceof Error && error.name === "AbortError");
        if (!isOver || !isOfLoss) throw error;
      } finally {
        await claim.leave();
      }
      options.signal?.throwIfAborted();
    }
  }

  /**
   * Takes a lock, which is kept until it is released or this process ends.
   *
   *     await using lock = await baton.lock("orders/42", { wait: 5_000 });
   *
   * @param name Any text of 1 to 200 bytes.
   * @throws {@link LockHeld} if another holds it and the wait is over, another {@link Refused} if the sidecar cannot
   * grant it now, {@link Unreachable} if there is no sidecar.
   */
  async lock(name: string, options: LockOptions = {}): Promise<Lock> {
    const source = new LockSource(this.#endpoint, name, options);
    return new Lock(await Claim.wait(source, this.#clock, options.margin, options.signal));
  }
}
