import assert from "node:assert/strict";
import { it } from "node:test";

import { type Answer, Claim, type Opened, type Source } from "../src/claim.js";
import type { Clock } from "../src/clock.js";
import type { Connection } from "../src/http.js";
import { until } from "./dev.js";

/** A clock that stands still until it is set ahead. */
function clock(): { now: Clock; ahead: (ms: number) => void } {
  let monotonic = 0;
  return {
    now: () => ({ monotonic, uptime: undefined }),
    ahead: (ms) => {
      monotonic += ms;
    },
  };
}

/** A sidecar whose answers are given by the test. Each question waits for one, or for its signal. */
class Sidecar implements Source {
  readonly questions: ((answer: Answer) => void)[] = [];

  async open(): Promise<Opened> {
    let close = () => {};
    const closed = new Promise<void>((resolve) => {
      close = resolve;
    });
    async function* lines(): AsyncGenerator<Record<string, unknown>> {
      await closed;
    }
    return { lines: lines(), name: "1", token: 41, validity: 60_000, close };
  }

  ask(_connection: Connection, _opened: Opened, signal: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      this.questions.push(resolve);
    });
  }

  lostBy(): undefined {}

  connect(): Connection {
    return { close: () => {} } as Connection;
  }

  async leave(): Promise<void> {}

  async answer(number: number, answer: Answer): Promise<void> {
    const resolve = await until(`question ${number}`, () => this.questions[number]);
    resolve(answer);
  }
}

async function held(sidecar: Sidecar, now: Clock, validFor: number): Promise<Claim> {
  const waiting = Claim.wait(sidecar, now, 0);
  await sidecar.answer(0, { validFor });
  return waiting;
}

it("does not come back to life by an answer to a question that was asked in time", async () => {
  const [sidecar, time] = [new Sidecar(), clock()];
  const claim = await held(sidecar, time.now, 30);
  assert.equal(claim.token, 41);
  const second = await until("a second question", () => sidecar.questions[1]);
  time.ahead(31);
  second({ validFor: 60_000 });
  await until("it has ended", () => claim.signal.aborted);
  assert.equal(claim.left(), 0);
  assert.throws(() => claim.token, /has run out/);
  await claim.leave();
});

it("is over when its time is, though nobody looks and no answer comes", async () => {
  const [sidecar, time] = [new Sidecar(), clock()];
  const claim = await held(sidecar, time.now, 10_000);
  // As after a sleep: no timer of this process knows of it.
  time.ahead(10_001);
  await until("it has noticed", () => claim.signal.aborted);
  assert.match(String(claim.signal.reason), /has run out/);
  await claim.leave();
});
