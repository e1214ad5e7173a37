import { setTimeout as rest } from "node:timers/promises";

import { Baton } from "baton-sidecar";

await new Baton().leading("scheduler", async (lead) => {
  for (;;) {
    console.log("acting with token", lead.token);
    await rest(1_000, undefined, { signal: lead.signal });
  }
});
