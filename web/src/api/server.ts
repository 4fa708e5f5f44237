import type { Answer, Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

export type CertificateSource = 'acme' | 'files' | 'proxy' | 'none';
export interface Certificate {
  source: CertificateSource;
  names: string[];
  issuer: string | null;
  expires_at: string | null;
  renew_at: string | null;
  state: 'ok' | 'pending' | 'failing' | 'expired' | null;
  error: { reason: string; text: string } | null;
  next_attempt_at: string | null;
}
export interface Check {
  name: string;
  state: 'ok' | 'warning' | 'failed' | 'skipped';
  text: string;
  /** Remedy; null if nothing is wrong. */
  hint: string | null;
}
export type Backups = Omit<S['ServerBackups'], 'key_copied'> & {
  /** True if an admin has confirmed that there is a copy of the secret key. */
  key_copied?: boolean;
};
type Optional = 'certificate' | 'update' | 'checks' | 'checked_at';
/** State of the server. Regions whose fields are missing are not shown. */
export type ServerInfo = Omit<S['ServerInfo'], 'backups' | 'disk' | Optional> & {
  backups: Backups;
  disk: Omit<S['ServerDisk'], 'days_left'> & { days_left?: number | null };
  certificate?: Certificate;
  checks?: Check[] | null;
  checked_at?: string | null;
};

/** API client for the server as a whole, `api.part(ServerApi)`. Only admins of the oldest workspace can use it. */
export class ServerApi {
  #transport: Transport;
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#transport = transport;
    this.#http = transport.http;
    this.#take = transport.take;
  }
  get(): Promise<ServerInfo> {
    return this.#take(this.#http.GET('/v1/server'));
  }
  /** Starts a backup; `get` has its result. */
  backUp(): Promise<S['BackupBegun']> {
    return this.#take(this.#http.POST('/v1/server/backups'));
  }
  /** Starts a test of the newest backup; `get` has its result. */
  drill(): Promise<S['BackupBegun']> {
    return this.#take(this.#http.POST('/v1/server/drill'));
  }
  /** Returns the number of interrupted tasks that continue. */
  async resume(): Promise<number> {
    return (await this.#take(this.#http.POST('/v1/server/resume'))).tasks;
  }
  /** Records that there is a copy of the secret key. */
  keyCopied(): Promise<ServerInfo> {
    return this.#call('patch', '/v1/server', { body: { key_copied: true } });
  }
  /** Runs all checks, which takes up to 30 seconds. */
  check(): Promise<{ data: Check[] }> {
    return this.#call('post', '/v1/server/checks', { fetch: this.#transport.untimed });
  }
  renewCertificate(): Promise<unknown> {
    return this.#call('post', '/v1/server/certificate', {});
  }
  #call<T>(method: 'post' | 'patch', path: string, init: object): Promise<T> {
    return this.#take(this.#http.request(method, path as never, init as never) as Promise<Answer<T>>);
  }
}
