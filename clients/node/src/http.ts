import { readFileSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";

import { BatonError, LockHeld, Refused, Unreachable } from "./errors.js";

const BODY_MAX = 1 << 20;

/** Where the sidecar is. */
export class Endpoint {
  readonly #base: URL;
  readonly #tokenFile: string | undefined;

  constructor(url: string | undefined, tokenFile: string | undefined) {
    const given = url ?? process.env.BATON_URL ?? "http://127.0.0.1:4040";
    const base = URL.canParse(given) ? new URL(given) : undefined;
    if (base?.protocol !== "http:" || base.pathname !== "/" || base.search !== "") {
      throw new TypeError(`${given} is not the sidecar's address: http://127.0.0.1:4040 is wanted, without a path`);
    }
    this.#base = base;
    this.#tokenFile = tokenFile ?? process.env.BATON_TOKEN_FILE;
  }

  connect(): Connection {
    return new Connection(this.#base, this.#tokenFile);
  }
}

/** One connection at a time, which neither a proxy nor a redirect leads elsewhere. */
export class Connection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(
    private readonly base: URL,
    private readonly tokenFile: string | undefined,
  ) {}

  /** Asks, and waits for the head of the answer. */
  async send(method: string, path: string, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.tokenFile !== undefined) {
      try {
        headers.Authorization = `Bearer ${readFileSync(this.tokenFile, "utf8").trim()}`;
      } catch (error) {
        throw new BatonError("the file with the sidecar's token cannot be read", { cause: error });
      }
    }
    return new Promise((resolve, reject) => {
      const asking = request(new URL(path, this.base), { agent: this.#agent, method, headers, signal });
      asking.setNoDelay(true);
      asking.on("response", (message) => resolve(new Response(message)));
      asking.on("error", (error) => reject(new Unreachable(`no answer to ${method} ${path}`, { cause: error })));
      asking.end();
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** An answer whose body is yet to be read. */
export class Response {
  constructor(private readonly message: IncomingMessage) {}

  get status(): number {
    return this.message.statusCode ?? 0;
  }

  header(name: string): string | undefined {
    const value = this.message.headers[name];
    return typeof value === "string" ? value : undefined;
  }

  /** All of it: an object, empty if it is none. */
  async whole(): Promise<Record<string, unknown>> {
    let text = "";
    try {
      for await (const piece of this.message.setEncoding("utf8")) {
        text += piece;
        if (text.length > BODY_MAX) throw new Unreachable("the answer does not end");
      }
    } catch (error) {
      throw new Unreachable("the answer broke off", { cause: error });
    }
    return object(text) ?? {};
  }

  /** One object after the other. It ends with the connection, or with a line that is none. */
  async *lines(): AsyncGenerator<Record<string, unknown>> {
    let text = "";
    try {
      for await (const piece of this.message.setEncoding("utf8")) {
        text += piece;
        for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
          const line = object(text.slice(0, end));
          if (line === undefined) return;
          text = text.slice(end + 1);
          yield line;
        }
      }
    } catch {
      // The connection has ended.
    } finally {
      this.message.destroy();
    }
  }

  async refusal(): Promise<Refused> {
    const problem = await this.whole().catch(() => ({}));
    return this.status === 409 ? new LockHeld(this.status, problem) : new Refused(this.status, problem);
  }
}

function object(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
