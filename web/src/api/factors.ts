import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];
export type Passkey = S['Passkey'];
export type SecondFactors = S['SecondFactors'];
/** Proof of identity: one of its fields. */
export type Proof = S['ConfirmForm'];

/** API client for a person's own second factors, `api.part(FactorsApi)`. */
export class FactorsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  factors(): Promise<SecondFactors> {
    return this.#take(this.#http.GET('/v1/auth/factors'));
  }
  async passkeys(): Promise<Passkey[]> {
    return (await this.#take(this.#http.GET('/v1/auth/passkeys'))).data;
  }
  /** Confirms the identity of the person, which permits changes for 10 minutes. */
  confirm(body: Proof): Promise<void> {
    return this.#take(this.#http.POST('/v1/auth/confirm', { body }));
  }
  startApp(): Promise<S['AppSecret']> {
    return this.#take(this.#http.POST('/v1/auth/totp'));
  }
  /** Returns recovery codes if the app is the first second factor. */
  async confirmApp(code: string): Promise<string[] | null> {
    const made = await this.#take(this.#http.POST('/v1/auth/totp/confirm', { body: { code } }));
    return made.recovery_codes;
  }
  removeApp(): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/auth/totp'));
  }
  async renewRecoveryCodes(): Promise<string[]> {
    return (await this.#take(this.#http.POST('/v1/auth/recovery-codes'))).recovery_codes ?? [];
  }
  passkeyCreationOptions(): Promise<object> {
    return this.#take(this.#http.POST('/v1/auth/passkeys/options'));
  }
  addPasskey(name: string, credential: Record<string, unknown>): Promise<S['NewPasskey']> {
    return this.#take(this.#http.POST('/v1/auth/passkeys', { body: { name, credential } }));
  }
  renamePasskey(id: string, name: string): Promise<Passkey> {
    return this.#take(this.#http.PATCH('/v1/auth/passkeys/{id}', { ...at({ id }), body: { name } }));
  }
  removePasskey(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/auth/passkeys/{id}', at({ id })));
  }
}
