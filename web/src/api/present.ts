/**
 * Types of responses. The OpenAPI document marks every nullable field as optional, but the server omits only the fields
 * below: all others are present, with null for no value.
 */
import type { components } from './schema';

/** Fields that are omitted if there is nothing to report. */
type Omittable = 'effective_model' | 'member_ids' | 'next_cursor' | 'retry_after_s';
/** Fields with an object whose fields are omitted unless they are set. */
type Sparse = 'avatar' | 'metadata' | 'tools' | 'input' | 'output' | 'snapshot' | 'resolved';

/** A response as the server sends it; the only place where generated types are narrowed. */
export type Present<T> = T extends ReadableStream
  ? T
  : T extends readonly (infer U)[]
    ? Present<U>[]
    : T extends object
      ? Extract<keyof T, Omittable> extends never
        ? Full<T>
        : Full<Omit<T, Omittable>> & Pick<T, Extract<keyof T, Omittable>>
      : T;
type Full<T> = {
  [K in keyof T]-?: K extends Sparse ? Exclude<T[K], undefined> : Present<Exclude<T[K], undefined>>;
};

/** Schemas of the OpenAPI document as they appear in responses. */
export type Schemas = { [K in keyof components['schemas']]: Present<components['schemas'][K]> };
/** Schemas of requests: omitted fields keep their value or get their default. */
export type Forms = components['schemas'];
/** A request with fields for which null has the same meaning as an omission, which the document allows. */
export type NotNull<T, K extends keyof T> = Omit<T, K> & { [F in K]?: NonNullable<T[F]> };
