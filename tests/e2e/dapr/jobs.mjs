// An app of Dapr's published package: its server gets a job, its client's transport schedules, gets and deletes jobs.
// The release of that package that is on npm has no calls for jobs of its own yet; those that its successors announce
// are the ones below. node jobs.mjs APP_PORT BATON_PORT; ends with 0 if every answer was the one that Dapr gives.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

// From where it was installed, which is where this is started.
const require = createRequire(path.join(process.cwd(), "package.json"));
const { CommunicationProtocolEnum, DaprServer, HttpMethod } = require("@dapr/dapr");

const [serverPort, daprPort] = process.argv.slice(2);
const server = new DaprServer({
  serverHost: "127.0.0.1",
  serverPort,
  communicationProtocol: CommunicationProtocolEnum.HTTP,
  clientOptions: { daprHost: "127.0.0.1", daprPort, communicationProtocol: CommunicationProtocolEnum.HTTP },
});
const client = server.client;
const jobs = (name, method, body) =>
  client.daprClient.executeWithApiVersion("v1.0-alpha1", `/jobs/${name}`, { method, body });
const status = (wanted) => (error) => JSON.parse(error.message).status === wanted;

const got = new Promise((done) => {
  server.invoker.listen("job/R2-D2", async (data) => done(JSON.parse(data.body)), { method: HttpMethod.POST });
});
await server.start(); // asks for the sidecar's health until it is well

const data = { droid: "R2-D2", task: "Oil Change" };
await jobs("R2-D2", "POST", { dueTime: "1s", data });
assert.deepEqual(await got, data);
console.log("a job was delivered");

await jobs("C-3PO", "POST", { schedule: "0 15 3 * * *", repeats: 2, failurePolicy: { constant: { interval: "1s" } } });
const job = await jobs("C-3PO", "GET");
console.log(job);
assert.equal(job.schedule, "0 15 3 * * *");
assert.equal(job.repeats, 2);
assert.deepEqual(job.failurePolicy, { constant: { interval: "1s" } });
await assert.rejects(jobs("C-3PO", "POST", { dueTime: "1h" }), status(409));
await jobs("C-3PO", "POST", { dueTime: "1h", overwrite: true });
await jobs("C-3PO", "DELETE");
await assert.rejects(jobs("C-3PO", "GET"), status(500));
await server.stop();
await client.stop();
