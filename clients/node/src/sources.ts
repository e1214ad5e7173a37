import { setTimeout as rest } from "node:timers/promises";

import { type Answer, type Opened, type Source, within } from "./claim.js";
import { BatonError, LockHeld, Refused, Unreachable } from "./errors.js";
import type { Connection, Endpoint } from "./http.js";

/** Who acts upon a lead: this process alone, or others in the pod, too. */
export type Scope = "pod" | "process";

const CONNECT_MS = 1_000;
const WAIT_MS = 30_000;
/** What the sidecar may add to a wait. */
const SLACK_MS = 5_000;
const LOCK_WAIT_MAX_MS = 3_600_000;
/** What asking again does not mend. */
const FINAL = [400, 401, 403, 404];

/** Waits for a grant. Its connection outlives the signal: its end would say that the work has stopped. */
async function open(endpoint: Endpoint, path: string, wait: number, signal: AbortSignal | undefined) {
  const connection = endpoint.connect();
  const given = new AbortController();
  const giveUp = () => given.abort();
  const timer = setTimeout(giveUp, CONNECT_MS + wait + SLACK_MS);
  signal?.addEventListener("abort", giveUp);
  try {
    signal?.throwIfAborted();
    const response = await connection.send("GET", path, given.signal);
    if (response.status !== 200) throw await response.refusal();
    const lines = response.lines();
    const first = (await lines.next()).value;
    signal?.throwIfAborted();
    if (first === undefined) throw new Unreachable("the first line broke off");
    const close = () => {
      given.abort();
      connection.close();
    };
    return { lines, first, close };
  } catch (error) {
    connection.close();
    signal?.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}

/** `/leader/{role}/hold` */
export class Role implements Source {
  readonly #path: string;

  constructor(
    private readonly endpoint: Endpoint,
    role: string,
    private readonly scope: Scope,
  ) {
    if (scope !== "pod" && scope !== "process") throw new TypeError(`scope ${scope}: pod or process is wanted`);
    this.#path = `/leader/${encodeURIComponent(role)}`;
  }

  connect(): Connection {
    return this.endpoint.connect();
  }

  async open(signal: AbortSignal | undefined): Promise<Opened> {
    for (let pause = 0; ; pause = within(50, pause * 2, 1_000)) {
      await rest(pause, undefined, signal && { signal }).catch(() => signal?.throwIfAborted());
      const askedAt = performance.now();
      try {
        const path = `${this.#path}/hold?wait=${WAIT_MS}ms&scope=${this.scope}`;
        const { lines, first, close } = await open(this.endpoint, path, WAIT_MS, signal);
        const { leader, hold, token, valid_for_ms } = first;
        if (leader === true && typeof hold === "string" && isNumber(token) && isNumber(valid_for_ms)) {
          return { lines, name: hold, token, validity: valid_for_ms, close };
        }
        close();
      } catch (error) {
        signal?.throwIfAborted();
        const isFinal = error instanceof Refused ? FINAL.includes(error.status) : !(error instanceof Unreachable);
        if (isFinal) throw error;
        if (performance.now() - askedAt >= WAIT_MS) pause = 0;
      }
    }
  }

  lostBy(line: Record<string, unknown>, opened: Opened): string | undefined {
    if (line.leader === false) return String(line.reason ?? "this replica does not lead");
    return line.token === opened.token ? undefined : "another term has begun";
  }

  async ask(connection: Connection, opened: Opened, signal: AbortSignal): Promise<Answer> {
    const path = `${this.#path}?hold=${encodeURIComponent(opened.name)}`;
    const response = await connection.send("GET", path, signal);
    const body = await response.whole();
    if (response.status === 410) return { lost: "the sidecar knows nothing of its connection" };
    if (response.status !== 200 || typeof body.leader !== "boolean") return undefined;
    const reason = this.lostBy(body, opened);
    if (reason !== undefined) return { lost: reason };
    const validFor = body.valid_for_ms;
    return isNumber(validFor) ? { validFor } : undefined;
  }

  async leave(connection: Connection, opened: Opened, signal: AbortSignal): Promise<void> {
    await connection.send("POST", `${this.#path}/drained?hold=${encodeURIComponent(opened.name)}`, signal);
  }
}

export interface LockOptions {
  /** Milliseconds to wait for the lock; `Infinity` for as long as it takes. Not at all without it. */
  wait?: number;
  /** Who takes it. The same owner may take it again; nobody is the same as nobody. */
  owner?: string;
  /** Milliseconds that it lasts when the sidecar has died; `locks.lease` of its configuration without it. */
  lease?: number;
  /** First come, first served. */
  fair?: boolean;
  /** So many may hold it at once. All say the same number. */
  permits?: number;
  /** As of `LeadOptions`. */
  margin?: number;
  /** Ends the wait. */
  signal?: AbortSignal;
}

/** `/locks/{name}/hold` */
export class LockSource implements Source {
  readonly #path: string;

  constructor(
    private readonly endpoint: Endpoint,
    name: string,
    private readonly options: LockOptions,
  ) {
    this.#path = `/locks/${encodeURIComponent(name)}`;
  }

  connect(): Connection {
    return this.endpoint.connect();
  }

  async open(signal: AbortSignal | undefined): Promise<Opened> {
    const { wait = 0, owner, lease, fair, permits } = this.options;
    const ends = performance.now() + wait;
    for (;;) {
      const left = Math.max(0, ends - performance.now());
      const now = Math.min(left, LOCK_WAIT_MAX_MS);
      const query = new URLSearchParams({ wait: `${Math.round(now)}ms` });
      if (owner !== undefined) query.set("owner", owner);
      if (lease !== undefined) query.set("lease", `${Math.round(lease)}ms`);
      if (fair) query.set("fair", "true");
      if (permits !== undefined) query.set("permits", String(permits));
      try {
        const { lines, first, close } = await open(this.endpoint, `${this.#path}/hold?${query}`, now, signal);
        const { lock, token, valid_for_ms } = first;
        if (typeof lock === "string" && isNumber(token) && isNumber(valid_for_ms)) {
          return { lines, name: lock, token, validity: valid_for_ms, close };
        }
        close();
        throw new BatonError("the sidecar's answer does not name the lock that it grants");
      } catch (error) {
        if (!(error instanceof LockHeld) || left <= now) throw error;
      }
    }
  }

  lostBy(line: Record<string, unknown>): string | undefined {
    return "lost" in line ? String(line.lost) : undefined;
  }

  async ask(connection: Connection, opened: Opened, signal: AbortSignal): Promise<Answer> {
    const response = await connection.send("PUT", `${this.#path}/${opened.name}`, signal);
    await response.whole();
    if (response.status === 410) return { lost: "the lock is lost" };
    const validFor = Number(response.header("baton-valid-for-ms") ?? Number.NaN);
    return response.status === 204 && isNumber(validFor) ? { validFor } : undefined;
  }

  async leave(connection: Connection, opened: Opened, signal: AbortSignal): Promise<void> {
    await connection.send("DELETE", `${this.#path}/${opened.name}`, signal);
  }
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
