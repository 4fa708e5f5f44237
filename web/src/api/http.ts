import type { Client } from 'openapi-fetch';
import type { paths } from './schema';

interface Init {
  params?: { path?: Record<string, string>; query?: object; header?: object };
  body?: unknown;
  headers?: object;
  parseAs?: 'stream';
  signal?: AbortSignal;
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * Client with the generated types of openapi-fetch. Only the types of that package are used: this code does all that
 * the client needs in a sixth of the size, and the startup bundle has a size limit.
 */
export function httpClient(
  base: string,
  common: Record<string, string>,
  send: (request: Request) => Promise<Response>,
): Client<paths> {
  const call = async (method: string, path: string, init: Init = {}) => {
    const { params = {}, body, headers, parseAs, signal } = init;
    const at = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params.path?.[name] ?? ''));
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(params.query ?? {}) as [string, unknown][])
      if (value !== undefined && value !== null) query.append(key, String(value as string));
    const all = { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...common };
    const request = new Request(base + at + (query.size ? `?${query}` : ''), {
      method,
      headers: { ...all, ...headers, ...params.header },
      body: body === undefined ? null : JSON.stringify(body),
      cache: 'no-store',
      signal: signal ?? null,
    });
    const response = await (init.fetch ?? send)(request);
    if (response.ok && parseAs) return { data: response.body, response };
    const text = await response.text();
    if (response.ok) return { data: text ? (JSON.parse(text) as unknown) : undefined, response };
    try {
      return { error: JSON.parse(text) as unknown, response };
    } catch {
      return { error: text, response }; // the response came from a proxy
    }
  };
  const verb = (method: string) => (path: string, init?: Init) => call(method, path, init);
  return {
    GET: verb('GET'),
    PUT: verb('PUT'),
    POST: verb('POST'),
    PATCH: verb('PATCH'),
    DELETE: verb('DELETE'),
    request: call,
  } as unknown as Client<paths>;
}
