// The program that the suite for all clients runs (clients/README.md).
import { createInterface } from "node:readline";
import { setTimeout as rest } from "node:timers/promises";
import { now } from "../src/clock.js";
import { Baton, type Held } from "../src/index.js";

/** The work needs so long to stop, whoever ends it. */
const STOPPING_MS = 30;

let slept = 0;
const ending = new AbortController();
const at = () => process.hrtime.bigint();

function say(what: string, when: bigint, token?: number): void {
  const also = token === undefined ? "" : `,"token":${token}`;
  process.stdout.write(`{"is":"${what}"${also},"at":${when}}\n`);
}

function clock() {
  const { monotonic, uptime } = now();
  return { monotonic, uptime: (uptime ?? monotonic) + slept };
}

async function work(lead: Held): Promise<void> {
  let hasBegun = false;
  try {
    while (!ending.signal.aborted) {
      const when = at();
      const token = lead.token;
      if (!hasBegun) say("begins", when, token);
      hasBegun = true;
      say("works", when, token);
      await rest(5, undefined, { signal: lead.signal });
    }
  } catch {
    say("cancelled", at());
  }
  await lastFor(STOPPING_MS);
  say("left", at());
}

/** Lets what is tested for last so long. */
async function lastFor(ms: number): Promise<void> {
  await rest(ms);
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [word, ms] = line.split(" ");
  if (word === "end") {
    lines.close();
  } else {
    slept += Number(ms);
    say("slept", at());
  }
});
lines.on("close", () => ending.abort());

await new Baton({}, clock).leading(process.argv[2] ?? "", work, { signal: ending.signal }).catch((error) => {
  if (!ending.signal.aborted) throw error;
});
process.exit(0);
