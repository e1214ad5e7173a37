// Takes, is refused and frees locks with Dapr's published client over HTTP, through two sidecars on one Redis.
// node client.mjs STORE PORT PORT; ends with 0 if every answer was the one that Dapr gives.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as rest } from "node:timers/promises";

// From where it was installed, which is where this is started.
const require = createRequire(path.join(process.cwd(), "package.json"));
const { CommunicationProtocolEnum, DaprClient } = require("@dapr/dapr");
const { LockStatus } = require("@dapr/dapr/types/lock/UnlockResponse");

const [store, ...ports] = process.argv.slice(2);
const [one, two] = ports.map(
  (daprPort) =>
    new DaprClient({ daprHost: "127.0.0.1", daprPort, communicationProtocol: CommunicationProtocolEnum.HTTP }),
);

async function lock(client, owner, seconds, success) {
  const answer = await client.lock.lock(store, "order/42", owner, seconds);
  console.log(`${owner} locks: success ${answer.success}`);
  assert.deepEqual(answer, { success });
}

async function unlock(client, owner, status) {
  const answer = await client.lock.unlock(store, "order/42", owner);
  console.log(`${owner} unlocks: ${LockStatus[answer.status]}`);
  assert.equal(answer.status, status);
}

async function until(what, reached) {
  for (const ends = Date.now() + 30_000; !(await reached()); await rest(50)) {
    assert.ok(Date.now() < ends, `waited too long: ${what}`);
  }
}

await one.start(); // asks for the sidecar's health until it is well
assert.equal(await two.health.isHealthy(), true);
await lock(one, "ann", 60, true);
await lock(two, "bob", 60, false);
await lock(one, "ann", 60, false);
await unlock(two, "bob", LockStatus.LockBelongsToOthers);
await unlock(two, "ann", LockStatus.Success); // through another sidecar than the one that granted it
await unlock(one, "ann", LockStatus.LockDoesNotExist);

// The lock of one that is late is another's by now, and stays so.
await lock(one, "late", 1, true);
await until("the lock expires", async () => (await two.lock.lock(store, "order/42", "next", 60)).success);
await unlock(one, "late", LockStatus.LockBelongsToOthers);
await unlock(one, "next", LockStatus.Success);

await assert.rejects(one.lock.lock("other", "order/42", "ann", 60), (error) => {
  console.log(`another store: ${error.message}`);
  const { status, error_msg } = JSON.parse(error.message);
  return status === 404 && JSON.parse(error_msg).errorCode === "ERR_LOCK_NOT_FOUND";
});
await assert.rejects(one.lock.lock(store, "order/42", "ann", 0), /ERR_EXPIRY_NOT_POSITIVE/);
await one.stop();
await two.stop();
