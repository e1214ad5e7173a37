import { createServer } from "node:http";

import { jobHandler } from "baton-sidecar";

const nightly = jobHandler(async (run) => `attempt ${run.attempt} of ${run.id}, with token ${run.token}`);

createServer(nightly).listen(8080, "127.0.0.1");
