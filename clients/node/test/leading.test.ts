import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";

import { Baton, BatonError, type Held, Lost, Refused, type Scope } from "../src/index.js";
import { Dev, freePort, holdsFor, workUntilAborted } from "./dev.js";

async function never(): Promise<void> {
  assert.fail("it does not lead");
}

describe("leading", () => {
  let dev: Dev;
  beforeEach(async () => {
    dev = await Dev.start();
  });
  afterEach(() => dev.end());

  it("has a token, and is over when the work has settled", async () => {
    const first = await dev.leader();
    let kept: Held | undefined;
    const token = await dev.baton(first).leading("scheduler", async (lead) => {
      kept = lead;
      assert.ok(lead.left() > 0 && lead.left() < 2_000 && !lead.signal.aborted);
      return lead.token;
    });
    assert.throws(() => kept?.token, Lost);
    assert.equal(kept?.left(), 0);
    // It has said that it has stopped: the other need not wait for anything.
    const ended = performance.now();
    const other = dev.baton(1 - first);
    const later = await other.leading("scheduler", async (lead) => lead.token, { scope: "process" });
    assert.ok(later > token && performance.now() - ended < 1_500);
  });

  it("aborts what is lost, and begins again with the next lead", async () => {
    const first = await dev.leader();
    const tokens: number[] = [];
    await dev.baton(first).leading("scheduler", async (lead) => {
      tokens.push(lead.token);
      if (tokens.length === 2) return;
      await dev.resign(first, "1s");
      dev.anotherLeads(first).then(() => dev.resign(1 - first));
      await workUntilAborted(lead.signal);
    });
    assert.ok(tokens.length === 2 && Number(tokens[0]) < Number(tokens[1]), String(tokens));
  });

  it("passes on what the work throws", async () => {
    const first = await dev.leader();
    const broken = new Error("no disk");
    const leading = dev.baton(first).leading("scheduler", () => Promise.reject(broken));
    await assert.rejects(leading, broken);
    await dev.anotherLeads(first);
  });

  it("keeps the lead until the work has stopped, though it is not to lead again", async () => {
    const first = await dev.leader();
    const stop = new AbortController();
    const work = async () => {
      stop.abort();
      await holdsFor(500, "it leads while it works", async () => (await dev.leads()) === first);
    };
    const options = { scope: "process" as const, signal: stop.signal };
    await dev.baton(first).leading("scheduler", work, options);
    await dev.anotherLeads(first);
  });

  it("may stop waiting", async () => {
    const first = await dev.leader();
    const other = dev.baton(1 - first);
    const leading = other.leading("scheduler", never, { signal: AbortSignal.timeout(300) });
    await assert.rejects(leading, { name: "TimeoutError" });
  });

  it("tells who may not, or asks for nonsense", async () => {
    const baton = dev.baton(0);
    const isUnknown = (error: unknown) =>
      error instanceof Refused && error.status === 404 && error.type === "unknown-role";
    await assert.rejects(baton.leading("nobody", never), isUnknown);
    await assert.rejects(baton.leading("scheduler", never, { scope: "thread" as Scope }), /scope/);
    await assert.rejects(baton.leading("scheduler", never, { margin: -1 }), /margin/);
    const keyless = new Baton({ url: dev.url(0), tokenFile: "/nowhere" });
    await assert.rejects(keyless.leading("scheduler", never), BatonError);
    assert.throws(() => new Baton({ url: "https://127.0.0.1:4040/leader" }), /address/);
  });
});

it("waits for a sidecar that is not there yet", async () => {
  const port = await freePort();
  const leading = new Baton({ url: `http://127.0.0.1:${port}` }).leading("scheduler", async (lead) => lead.token);
  const dev = new Dev(port);
  if ((await dev.leader()) === 1) await dev.resign(1);
  assert.ok((await leading) > 0);
  await dev.end();
});
