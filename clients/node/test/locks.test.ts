import assert from "node:assert/strict";
import { once } from "node:events";
import { afterEach, beforeEach, describe, it } from "node:test";

import { Baton, LockHeld, Lost, Unreachable } from "../src/index.js";
import { Dev, until } from "./dev.js";

describe("locks", () => {
  let dev: Dev;
  beforeEach(async () => {
    dev = await Dev.start();
  });
  afterEach(() => dev.end());
  const batons = () => [dev.baton(0), dev.baton(1)] as const;

  it("keeps others out until it is released", async () => {
    const [one, other] = batons();
    const lock = await one.lock("orders/42", { owner: "one" });
    const { token } = lock;
    const isHeld = (error: unknown) =>
      error instanceof LockHeld && error.holder?.owner === "one" && error.holder.token === token;
    await assert.rejects(other.lock("orders/42"), isHeld);
    await lock.release();
    assert.throws(() => lock.token, Lost);
    {
      await using next = await other.lock("orders/42", { lease: 1_000, fair: true });
      assert.ok(next.token > token);
    }
    await (await one.lock("orders/42")).release();
  });

  it("is waited for", async () => {
    const [one, other] = batons();
    const lock = await one.lock("a");
    const order: string[] = [];
    const locked = other.lock("a", { wait: Number.POSITIVE_INFINITY }).finally(() => order.push("locked"));
    await until("one waits", () => dev.waits(1));
    order.push("released");
    await lock.release();
    await using next = await locked;
    assert.ok(next.left() > 0);
    assert.deepEqual(order, ["released", "locked"]);
  });

  it("is lost when an operator takes it away", async () => {
    const [one] = batons();
    await using lock = await one.lock("a");
    const aborted = once(lock.signal, "abort");
    await dev.call(1, "DELETE", "/locks/a", { token: lock.token });
    await aborted;
    assert.throws(() => lock.token, /operator/);
  });

  it("has as many holders as permits", async () => {
    const [one] = batons();
    await using _first = await one.lock("pool", { permits: 2 });
    await using _second = await one.lock("pool", { permits: 2 });
    await assert.rejects(one.lock("pool", { permits: 2 }), LockHeld);
  });
});

it("tells that there is no sidecar", async () => {
  await assert.rejects(new Baton({ url: "http://127.0.0.1:9" }).lock("a"), Unreachable);
});
