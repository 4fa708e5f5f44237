import type { components } from './schema';

export type ErrorCode = components['schemas']['ErrorCode'];

/** The server rejected the request; the message is the server's own (`{"error":{…}}`). */
export class ApiError extends Error {
  readonly status: number;
  /** Null if the response did not come from the server itself. */
  readonly code: ErrorCode | null;
  readonly param: string | null;
  readonly retryAfterS: number | null;
  constructor(status: number, body: unknown, fallback: string, retryAfterS: number | null = null) {
    const error = errorOf(body);
    super(error.message ?? fallback);
    this.name = 'ApiError';
    this.status = status;
    this.code = error.code ?? null;
    this.param = error.param ?? null;
    this.retryAfterS = retryAfterS;
  }
}

/** The object changed in the meantime (stale `If-Match`); carries the current one. */
export class Conflict extends ApiError {
  /** Current state of the object. */
  readonly current: unknown;
  constructor(body: unknown, fallback: string) {
    super(409, body, fallback);
    this.name = 'Conflict';
    this.current = errorOf(body).current;
  }
}

/** The password was right, and the account has a second factor. */
export class SecondFactorNeeded extends ApiError {
  /** Secret of the sign-in. */
  readonly flow: string;
  readonly methods: string[];
  constructor(body: unknown, fallback: string) {
    super(401, body, fallback);
    this.name = 'SecondFactorNeeded';
    const { flow, methods } = errorOf(body);
    this.flow = flow ?? '';
    this.methods = methods ?? [];
  }
}

/** Text for a status without an error of the server, which then comes from a proxy. */
export const statusText = (status: number): string =>
  status === 413
    ? 'A proxy refuses files of this size: an admin can raise its limit.'
    : `The server responded with status ${status}.`;
/** Error for an unsuccessful response. */
export function failure(response: Response, body: unknown): ApiError {
  const fallback = statusText(response.status);
  if (response.status === 409 && errorOf(body).current) return new Conflict(body, fallback);
  // of a sign-in; with status 403, a workspace demands it of the session
  if (response.status === 401 && errorOf(body).code === 'second_factor_required')
    return new SecondFactorNeeded(body, fallback);
  const wait = Number(response.headers.get('retry-after'));
  return new ApiError(response.status, body, fallback, wait || null);
}

/** No response: the network is down, the server is down, or the request timed out. */
export class Unreachable extends Error {
  readonly timedOut: boolean;
  constructor(
    timedOut: boolean,
    message = timedOut ? 'The server did not respond in time.' : 'The server cannot be reached.',
  ) {
    super(message);
    this.name = 'Unreachable';
    this.timedOut = timedOut;
  }
}
/** No connection, and the copy on this device does not contain the object. */
export class NotStored extends Unreachable {
  constructor() {
    super(false, 'This is not stored on this device.');
    this.name = 'NotStored';
  }
}

function errorOf(body: unknown): Partial<components['schemas']['ErrorDetail']> {
  if (typeof body !== 'object' || body === null || !('error' in body)) return {};
  const { error } = body;
  return typeof error === 'object' && error !== null ? error : {};
}

/** Messages that replace the server's, because the client knows the next step. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  too_many_forks: 'This thread has 7 open dives. Resolve or abandon one first.',
  fork_closed: 'This dive is closed. Reopen it to continue.',
};

/** Error message for the user, in one sentence. */
export const errorMessage = (e: unknown): string => {
  if (e instanceof ApiError)
    return (e.code && MESSAGES[e.code]) ?? e.message.charAt(0).toUpperCase() + e.message.slice(1);
  return e instanceof Unreachable ? e.message : 'Something went wrong. Reload the page.';
};

/** True if the workspace demands more of the session than it proves. */
export const isDemand = (code: ErrorCode | null): boolean =>
  code === 'second_factor_required' || code === 'provider_required' || code === 'session_too_old';

export const isMissing = (e: unknown): boolean =>
  e instanceof ApiError && (e.status === 404 || e.status === 400);
