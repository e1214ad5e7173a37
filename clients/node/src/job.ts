import type { IncomingMessage, ServerResponse } from "node:http";

/** An attempt at a run of a job, as the sidecar asks for it. */
export interface JobRun {
  /** The run's, the same for all its attempts. */
  id: string;
  /** When it was due. */
  scheduledTime: Date;
  /** 1, 2, 3, … */
  attempt: number;
  /** The fencing token of this attempt: hand it on to whatever is written to. */
  token: number;
  /** The number of its shard, where the role is split. */
  shard: number | undefined;
  /** What the configuration has the sidecar send. */
  body: Uint8Array;
}

/** For `node:http` and what is built on it; {@link JobHandler.fetch} is for what speaks in requests and responses. */
export interface JobHandler {
  (request: IncomingMessage, response: ServerResponse): void;
  fetch(request: Request): Promise<Response>;
}

/**
 * Does a job's work when the sidecar asks for it. What the work returns is the note of the attempt; what it throws makes
 * it fail. An attempt whose token is smaller than one that was seen of its shard is refused: a later leader has sent that.
 */
export function jobHandler(work: (run: JobRun) => Promise<string | void>): JobHandler {
  // Tokens of two shards do not compare.
  const greatest = new Map<number | undefined, number>();

  async function handle(header: (name: string) => string | undefined, body: Uint8Array): Promise<[number, string]> {
    let run: JobRun;
    try {
      run = read(header, body);
    } catch (error) {
      return [400, message(error)];
    }
    const seen = greatest.get(run.shard) ?? 0;
    if (run.token < seen) return [409, `token ${run.token}: a later leader has sent ${seen}`];
    greatest.set(run.shard, run.token);
    try {
      return [200, (await work(run)) ?? ""];
    } catch (error) {
      return [500, message(error)];
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Uint8Array[] = [];
    for await (const piece of request) pieces.push(piece);
    const header = (name: string) => request.headers[name]?.toString();
    const [status, text] = await handle(header, Buffer.concat(pieces));
    response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" }).end(text);
  }

  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    // The sidecar has let go of the request.
    serve(request, response).catch(() => response.destroy());
  };
  return Object.assign(listener, {
    async fetch(request: Request): Promise<Response> {
      const header = (name: string) => request.headers.get(name) ?? undefined;
      const [status, text] = await handle(header, new Uint8Array(await request.arrayBuffer()));
      return new Response(text, { status });
    },
  });
}

function read(header: (name: string) => string | undefined, body: Uint8Array): JobRun {
  const text = (name: string): string => {
    const value = header(name);
    if (!value) throw new Error(`the header ${name} is missing: this is for the sidecar's jobs`);
    return value;
  };
  const number = (name: string): number => {
    const value = text(name);
    if (!/^\d+$/.test(value)) throw new Error(`${name} ${value}: a number is wanted`);
    return Number(value);
  };
  const scheduledTime = new Date(text("baton-scheduled-time"));
  if (Number.isNaN(scheduledTime.getTime())) throw new Error("baton-scheduled-time: a moment is wanted");
  return {
    id: text("baton-run-id"),
    scheduledTime,
    attempt: number("baton-attempt"),
    token: number("baton-fencing-token"),
    shard: header("baton-shard") === undefined ? undefined : number("baton-shard"),
    body,
  };
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
