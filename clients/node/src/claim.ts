import { setTimeout as rest } from "node:timers/promises";

import { between, type Clock, type Moment } from "./clock.js";
import { Lost } from "./errors.js";
import type { Connection } from "./http.js";

const MARGIN_MIN_MS = 20;
/** How often to look at the clock: a timer does not notice that the machine has slept. */
const LOOK_MS = 500;
/** How long the word that the work has stopped may take. */
const LEAVE_MS = 1_000;
/** Before the next is asked for, when one was lost before it could be used. */
const PAUSE_MS = 50;

/** A connection on which something was granted. */
export interface Opened {
  lines: AsyncGenerator<Record<string, unknown>>;
  name: string;
  token: number;
  /** About how many milliseconds answers are good for. Nothing is counted by this. */
  validity: number;
  close: () => void;
}

/** What came of asking for more time: so many milliseconds from before it was asked, or why it is lost. */
export type Answer = { validFor: number } | { lost: string } | undefined;

/** Where claims come from: a role, or a lock. */
export interface Source {
  /** Waits for a claim, until the signal. */
  open(signal: AbortSignal | undefined): Promise<Opened>;
  /** Why the claim is lost, if this line says so. */
  lostBy(line: Record<string, unknown>, opened: Opened): string | undefined;
  /** Asks for more time. Undefined: that was no clear answer. */
  ask(connection: Connection, opened: Opened, signal: AbortSignal): Promise<Answer>;
  connect(): Connection;
  /** Says that the work has stopped. */
  leave(connection: Connection, opened: Opened, signal: AbortSignal): Promise<void>;
}

/** Something that is held for as long as the sidecar promises, less a margin. */
export class Claim {
  readonly #ended = new AbortController();
  readonly #begun: Promise<boolean>;
  #tellBegun: (hasBegun: boolean) => void = () => {};
  #promise: { askedAt: Moment; span: number } | undefined;

  constructor(
    private readonly source: Source,
    private readonly opened: Opened,
    private readonly clock: Clock,
    private readonly margin: number | undefined,
  ) {
    this.#begun = new Promise((resolve) => {
      this.#tellBegun = resolve;
    });
    void this.#listen();
    void this.#ask();
  }

  /** Waits until something is held, and may be used. */
  static async wait(source: Source, clock: Clock, margin?: number, signal?: AbortSignal): Promise<Claim> {
    if (margin !== undefined && !(margin >= 0)) throw new RangeError(`margin ${margin}: milliseconds are wanted`);
    for (;;) {
      const claim = new Claim(source, await source.open(signal), clock, margin);
      const stop = () => claim.end("it is not waited for any more");
      signal?.addEventListener("abort", stop);
      const hasBegun = await claim.#begun;
      signal?.removeEventListener("abort", stop);
      if (hasBegun) return claim;
      claim.opened.close();
      await rest(PAUSE_MS, undefined, signal && { signal }).catch(() => signal?.throwIfAborted());
    }
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get token(): number {
    this.#look();
    this.signal.throwIfAborted();
    return this.opened.token;
  }

  /** Milliseconds until it is over; 0 when it is. */
  left(): number {
    this.#look();
    return this.signal.aborted ? 0 : this.#left();
  }

  /** The work has stopped: says so, and closes the connection. If nobody hears, it ends by its lease, or by that. */
  async leave(): Promise<void> {
    this.end("its scope was left");
    const connection = this.source.connect();
    await this.source.leave(connection, this.opened, AbortSignal.timeout(LEAVE_MS)).catch(() => {});
    connection.close();
    this.opened.close();
  }

  end(reason: string): void {
    this.#ended.abort(new Lost(reason));
    this.#tellBegun(false);
  }

  #left(): number {
    return this.#promise === undefined ? 0 : this.#promise.span - between(this.#promise.askedAt, this.clock());
  }

  /** What has run out is over at once, whoever notices it. */
  #look(): void {
    if (this.#promise !== undefined && this.#left() <= 0) this.end("what the sidecar promised has run out");
  }

  #extend(askedAt: Moment, validFor: number): void {
    this.#look();
    const span = validFor - (this.margin ?? Math.max(MARGIN_MIN_MS, validFor / 10));
    const left = span - between(askedAt, this.clock());
    if (this.signal.aborted || left <= 0 || left <= this.#left()) return;
    const isFirst = this.#promise === undefined;
    this.#promise = { askedAt, span };
    if (isFirst) {
      this.#tellBegun(true);
      this.#watch();
    }
  }

  #watch(): void {
    const left = this.left();
    if (left <= 0) return;
    const timer = setTimeout(
      () => {
        this.signal.removeEventListener("abort", stop);
        this.#watch();
      },
      Math.min(left, LOOK_MS),
    );
    const stop = () => clearTimeout(timer);
    this.signal.addEventListener("abort", stop, { once: true });
  }

  /** Hears of a loss, and of the connection's end. */
  async #listen(): Promise<void> {
    for await (const line of this.opened.lines) {
      const reason = this.source.lostBy(line, this.opened);
      if (reason !== undefined) this.end(reason);
    }
    this.end("the connection to the sidecar has ended");
  }

  /** Asks for more time, again and again. */
  async #ask(): Promise<void> {
    let connection = this.source.connect();
    let validity = this.opened.validity;
    while (!this.signal.aborted) {
      const askedAt = this.clock();
      const timeout = AbortSignal.timeout(Math.ceil(within(50, validity / 3, 2_000)));
      const either = AbortSignal.any([timeout, this.signal]);
      const answer = await this.source.ask(connection, this.opened, either).catch(() => undefined);
      let pause: number;
      if (answer === undefined) {
        connection.close();
        connection = this.source.connect();
        pause = within(10, validity / 10, 100);
      } else if ("lost" in answer) {
        this.end(answer.lost);
        break;
      } else {
        this.#extend(askedAt, answer.validFor);
        validity = answer.validFor;
        pause = Math.max(10, validity / 3 - between(askedAt, this.clock()));
      }
      // Its end is seen by the loop.
      await rest(pause, undefined, { signal: this.signal }).catch(() => {});
    }
    connection.close();
  }
}

export function within(least: number, value: number, most: number): number {
  return Math.max(least, Math.min(value, most));
}
