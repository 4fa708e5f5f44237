/** What the contract says of keys, usage, the audit log and the rest of a workspace's administration; as in types.ts. */
import type { components } from './schema';

type S = components['schemas'];
type Sent<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };

export type Scope = S['Scope'];
export type ApiKey = Sent<S['ApiKey']>;
/** The secret is in the answer to its making only. */
export type NewKey = ApiKey & { key: string };
export interface KeyForm {
  name: string;
  scopes: Scope[];
  expires_in_s?: number;
}
export interface InviteForm {
  email?: string;
  role: S['Role'];
  max_uses?: number;
  expires_in_s: number;
}
