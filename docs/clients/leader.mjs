// Works only while Baton promises that this replica leads: node leader.mjs [http://127.0.0.1:4040/leader/scheduler]
import { setTimeout as sleep } from "node:timers/promises";

const url = process.argv[2] ?? "http://127.0.0.1:4040/leader/scheduler";
const stepMaxMs = 200; // the longest that one step of the work takes

// The token and until when it may be used. No answer, or a strange one, means: not the leader.
async function ask() {
  const sent = performance.now(); // the promise counts from before the request, however long the answer takes
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1000) });
    const answer = await response.json();
    if (response.ok && answer.leader === true) {
      return { token: answer.token, until: sent + answer.valid_for_ms };
    }
  } catch {
    // Not answered.
  }
  return null;
}

// "resign" or "drained". A refusal only means that there was nothing to hand over.
async function tell(word) {
  await fetch(`${url}/${word}`, { method: "POST", signal: AbortSignal.timeout(1000) }).catch(() => {});
}

async function step(token) {
  console.log(`acting with token ${token}`); // hand it to whatever is written to: it refuses smaller ones
  await sleep(50);
}

let stopping = false;
process.on("SIGTERM", () => {
  stopping = true;
});
let led = false;
while (!stopping) {
  const answer = await ask();
  if (answer && performance.now() + stepMaxMs < answer.until) {
    led = true;
    await step(answer.token);
    continue;
  }
  if (led && !answer) {
    led = false;
    await tell("drained"); // the work has stopped: the next leader need not wait for the promise to run out
  }
  await sleep(200);
}
if (led) {
  await tell("resign");
  await tell("drained");
}
