import type { Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

export type Backups = S['ServerBackups'];
export type Certificate = S['ServerCertificate'];
export type Check = S['Check'];
export type Mail = S['ServerMail'];
/** State of the server, as its admins see it. */
export type ServerInfo = S['ServerInfo'];

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
    return this.#take(this.#http.PATCH('/v1/server', { body: { key_copied: true } }));
  }
  /** Permits or forbids that the server looks for new versions. */
  lookForUpdates(look_for_updates: boolean): Promise<ServerInfo> {
    return this.#take(this.#http.PATCH('/v1/server', { body: { look_for_updates } }));
  }
  /** Runs all checks, which takes up to 30 seconds. */
  check(): Promise<S['CheckResults']> {
    return this.#take(this.#http.POST('/v1/server/checks', { fetch: this.#transport.untimed }));
  }
  /** Sends a test email to the caller, which takes up to two minutes. */
  testMail(): Promise<S['MailTest']> {
    return this.#take(this.#http.POST('/v1/server/mail-test', { fetch: this.#transport.untimed }));
  }
  renewCertificate(): Promise<S['RenewalBegun']> {
    return this.#take(this.#http.POST('/v1/server/certificate'));
  }
}
