import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as rest } from "node:timers/promises";

import { Baton } from "../src/index.js";

const PATIENCE_MS = 30_000;

/** Waits for a state: what is found, looking again and again. */
export async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const ends = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    assert.ok(performance.now() < ends, `waited too long: ${what}`);
    await rest(10);
  }
}

/** Looks again and again, for so long, at what must not change. */
export async function holdsFor(spanMs: number, what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const ends = performance.now() + spanMs; performance.now() < ends; await rest(10)) {
    assert.ok(await holds(), `no more: ${what}`);
  }
}

/** Work that ends by its signal. One that does not come is a failure. */
export async function workUntilAborted(signal: AbortSignal): Promise<never> {
  await rest(PATIENCE_MS, undefined, { signal });
  assert.fail("waited too long: an abort");
}

/** A real `baton dev` of two replicas; `BATON_BIN` names the program. */
export class Dev {
  readonly #port: number;
  readonly #process: ChildProcess;

  constructor(port: number) {
    const program = process.env.BATON_BIN;
    assert.ok(program, "BATON_BIN names no program: the tests need a baton");
    this.#port = port;
    const options = ["dev", "--replicas", "2", "--port", String(port), "--lease", "2s"];
    this.#process = spawn(program, options, { stdio: "ignore" });
  }

  static async start(): Promise<Dev> {
    const dev = new Dev(await freePort());
    await dev.leader();
    return dev;
  }

  url(replica: number): string {
    return `http://127.0.0.1:${this.#port + replica}`;
  }

  baton(replica: number): Baton {
    return new Baton({ url: this.url(replica) });
  }

  async call(replica: number, method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(this.url(replica) + path, { method, headers, ...content });
    return (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  }

  /** The number of the replica that leads. It is promised nothing. */
  async leads(): Promise<number | undefined> {
    for (const replica of [0, 1]) {
      const status = await this.call(replica, "GET", "/status").catch(() => undefined);
      if ((status?.roles as { leads: boolean }[] | undefined)?.[0]?.leads) return replica;
    }
    return undefined;
  }

  leader(): Promise<number> {
    return until("a leader", () => this.leads());
  }

  async anotherLeads(first: number): Promise<void> {
    await until("another leads", async () => (await this.leads()) === 1 - first || undefined);
  }

  async resign(replica: number, cooldown = "1m"): Promise<void> {
    await this.call(replica, "POST", "/leader/scheduler/resign", { cooldown });
  }

  /** Whether somebody waits for a lock at this replica. */
  async waits(replica: number): Promise<boolean> {
    const { locks } = await this.call(replica, "GET", "/locks");
    return (locks as { waiting_here: number }[]).some((lock) => lock.waiting_here > 0);
  }

  async end(): Promise<void> {
    const exits = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await exits;
  }
}

/** The first of two that are free together with those of their telemetry. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = await listens(0);
    const others = await Promise.all([port, port + 1, port + 100, port + 101].map((other) => listens(other)));
    if (port > 0 && others.every((other) => other > 0)) return port;
  }
}

/** The port, or 0 if it is taken. */
function listens(port: number): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.on("error", () => resolve(0));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
