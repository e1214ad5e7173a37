import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { it } from "node:test";

import { between, now } from "../src/clock.js";
import { type JobRun, jobHandler } from "../src/index.js";

const HEADERS = {
  "Baton-Run-Id": "nightly-1763690400",
  "Baton-Scheduled-Time": "2025-11-21T02:00:00Z",
  "Baton-Attempt": "2",
  "Baton-Fencing-Token": "41",
};

it("counts what the machine has slept, and rather too much than too little", () => {
  const from = { monotonic: 1_000, uptime: 5_000 };
  assert.equal(between(from, { monotonic: 1_100, uptime: 5_100 }), 110);
  assert.equal(between(from, { monotonic: 1_100, uptime: 65_000 }), 60_010);
  assert.equal(between({ ...from, uptime: undefined }, { monotonic: 1_100, uptime: undefined }), 100);
  assert.ok(between(now(), now()) >= 0);
});

it("answers for a job's work", async () => {
  const runs: JobRun[] = [];
  const handler = jobHandler(async (run) => {
    runs.push(run);
    if (Buffer.from(run.body).toString() === "fail") throw new Error("no disk");
    return "41 rows";
  });
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/jobs/nightly`;
  const ask = [
    async (init: RequestInit) => handler.fetch(new Request("http://app/jobs/nightly", init)),
    async (init: RequestInit) => fetch(url(), init),
  ];
  for (const [change, body, status, text] of [
    [{ "Baton-Shard": "3" }, "{}", 200, /^41 rows$/],
    [{}, "fail", 500, /^no disk$/],
    [{ "Baton-Fencing-Token": "43" }, "", 200, /41 rows/],
    [{ "Baton-Fencing-Token": "42", "Baton-Shard": "3" }, "", 200, /41 rows/],
    [{ "Baton-Fencing-Token": "42" }, "", 409, /later leader has sent 43/],
    [{ "Baton-Attempt": "" }, "", 400, /baton-attempt is missing/],
    [{ "Baton-Attempt": "two" }, "", 400, /baton-attempt two/],
    [{ "Baton-Scheduled-Time": "noon" }, "", 400, /baton-scheduled-time/],
    [{ "Baton-Run-Id": "" }, "", 400, /baton-run-id/],
  ] as const) {
    const way = ask[status % 2 === 0 ? 0 : 1];
    assert.ok(way !== undefined);
    const response = await way({ method: "POST", headers: { ...HEADERS, ...change }, body });
    assert.equal(response.status, status);
    assert.match(await response.text(), text);
  }
  const over = await fetch(url(), { method: "POST", headers: { ...HEADERS, "Baton-Fencing-Token": "44" } });
  assert.equal(await over.text(), "41 rows");
  server.close();
  assert.deepEqual(
    runs.map((run) => [run.id, run.attempt, run.token, run.shard]),
    [41, 41, 43, 42, 44].map((token, at) => ["nightly-1763690400", 2, token, at % 3 === 0 ? 3 : undefined]),
  );
  assert.equal(runs[0]?.scheduledTime.toISOString(), "2025-11-21T02:00:00.000Z");
});
