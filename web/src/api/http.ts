import createClient, { type Client } from 'openapi-fetch';
import { failure, Unreachable } from './problem';
import type { paths } from './schema';

export interface ApiDeps {
  fetch?: (request: Request) => Promise<Response>;
  /** Base URL of the server; empty in a browser. */
  base?: string;
}
export interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Sends a request, or answers it without the server. */
export type Through = (request: Request, send: (request: Request) => Promise<Response>) => Promise<Response>;

/** Request timeout. A later response is ignored. */
const TIMEOUT_MS = 30_000;

/** Transport of all requests: no other code in the client calls `fetch`. */
export class Transport {
  /** Returns errors as values: `take` throws them. */
  readonly http: Client<paths>;
  /** `fetch` without a time limit, as an option of a request. */
  readonly untimed: (request: Request) => Promise<Response>;
  #deps: ApiDeps;

  constructor(deps: ApiDeps, workspace: string | null = null, through?: Through) {
    const send = deps.fetch ?? ((r: Request) => fetch(r));
    this.#deps = deps;
    this.untimed = send;
    this.http = createClient<paths>({
      baseUrl: deps.base ?? '',
      headers: workspace ? { 'X-Workspace-Id': workspace } : {},
      cache: 'no-store',
      fetch: (r) => {
        const timed = new Request(r, { signal: AbortSignal.timeout(TIMEOUT_MS) });
        return through ? through(timed, send) : send(timed);
      },
    });
  }
  /** The same server, with requests bound to a workspace. */
  in(workspace: string, through?: Through): Transport {
    return new Transport(this.#deps, workspace, through);
  }

  /** The body of a response. Fails with `ApiError`, or with `Conflict` if the object has changed. */
  take = async <T>(call: Promise<Answer<T>>): Promise<T> => {
    let answer: Answer<T>;
    try {
      answer = await call;
    } catch (e) {
      if (e instanceof Unreachable || (e instanceof DOMException && e.name === 'AbortError')) throw e;
      throw new Unreachable(e instanceof DOMException && e.name === 'TimeoutError');
    }
    const { data, error, response } = answer;
    if (response.ok) return data as T;
    throw failure(response, error);
  };
}
/** Path parameters of a request. */
export const at = <P extends object>(path: P) => ({ params: { path } });
/** Header that makes a change apply only to this version. */
export const ifMatch = (version: number) => ({ 'If-Match': `"${version}"` });
/**
 * Version of the object in a response, from its `ETag`, which becomes a weak one if a proxy compresses the
 * response.
 */
export const versionOf = (response: Response): number =>
  Number((response.headers.get('ETag') ?? '').replace(/^W\/|"/g, ''));
