/** The subset of OpenAPI 3.1 that our document uses, and helpers for the page. Does not use the DOM. */

export interface Schema {
  $ref?: string;
  title?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  example?: unknown;
  examples?: unknown[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
}
export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
  example?: unknown;
}
interface Media {
  schema?: Schema;
  example?: unknown;
}
interface Content {
  description?: string;
  required?: boolean;
  content?: Record<string, Media>;
}
type Ref<T> = T | { $ref: string };
interface RawOperation {
  tags?: string[];
  summary?: string;
  description?: string;
  operationId?: string;
  deprecated?: boolean;
  parameters?: Ref<Parameter>[];
  requestBody?: Ref<Content>;
  responses?: Record<string, Ref<Content>>;
}
export interface OpenApi {
  openapi: string;
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description?: string }[];
  paths: Record<string, Record<string, unknown> & { parameters?: Ref<Parameter>[] }>;
  components?: Record<string, Record<string, unknown>> & {
    securitySchemes?: Record<
      string,
      { type: string; name?: string; in?: string; scheme?: string; description?: string }
    >;
  };
}

export interface Payload {
  media: string | null;
  schema: Schema | null;
  example: unknown;
  description: string;
}
export interface Operation {
  /** Unique on the page; its link is `#id`. */
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string;
  deprecated: boolean;
  parameters: Parameter[];
  body: (Payload & { required: boolean }) | null;
  responses: (Payload & { status: string })[];
}
export interface Group {
  name: string;
  description: string;
  operations: Operation[];
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options'];
/** Depth limit of samples, because schemas can be recursive. */
const DEPTH_MAX = 4;

/** Target of a `$ref`, followed to the end; other values are returned as they are. */
export function follow<T>(doc: OpenApi, value: T | { $ref: string }): T {
  let found: unknown = value;
  for (let steps = 0; steps < 8 && isRef(found); steps++) {
    const path = found.$ref.replace(/^#\//, '').split('/');
    found = path.reduce<unknown>(
      (at, part) =>
        (at as Record<string, unknown> | undefined)?.[part.replace(/~1/g, '/').replace(/~0/g, '~')],
      doc,
    );
  }
  return (found ?? {}) as T;
}
const isRef = (v: unknown): v is { $ref: string } =>
  typeof (v as { $ref?: unknown } | null)?.$ref === 'string';
const refName = (s: Schema): string | undefined => s.$ref?.split('/').at(-1);

/** Operations by tag, in the document's order of tags; untagged ones come last. */
export function groups(doc: OpenApi): Group[] {
  const found = new Map<string, Group>();
  for (const tag of doc.tags ?? [])
    found.set(tag.name, { name: tag.name, description: tag.description ?? '', operations: [] });
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const method of METHODS) {
      const raw = item[method] as RawOperation | undefined;
      if (!raw) continue;
      const tag = raw.tags?.[0] ?? 'other';
      if (!found.has(tag)) found.set(tag, { name: tag, description: '', operations: [] });
      found.get(tag)!.operations.push(operation(doc, method, path, raw, item.parameters ?? []));
    }
  }
  return [...found.values()].filter((g) => g.operations.length > 0);
}

function operation(
  doc: OpenApi,
  method: string,
  path: string,
  raw: RawOperation,
  shared: Ref<Parameter>[],
): Operation {
  const body = raw.requestBody && follow<Content>(doc, raw.requestBody);
  const payload = (c: Content): Payload => {
    const [media, value] = Object.entries(c.content ?? {})[0] ?? [null, {} as Media];
    return { media, schema: value.schema ?? null, example: value.example, description: c.description ?? '' };
  };
  return {
    id: `${method}-${path.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-|-$/g, '')}`,
    method,
    path,
    summary: raw.summary ?? '',
    description: raw.description ?? '',
    deprecated: raw.deprecated ?? false,
    parameters: [...shared, ...(raw.parameters ?? [])].map((p) => follow<Parameter>(doc, p)),
    body: body ? { ...payload(body), required: body.required ?? false } : null,
    responses: Object.entries(raw.responses ?? {}).map(([status, r]) => ({
      status,
      ...payload(follow<Content>(doc, r)),
    })),
  };
}

/** Groups reduced to the operations that contain every word of `text`. */
export function matching(all: Group[], text: string): Group[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hit = (g: Group, o: Operation) => {
    const hay = `${g.name} ${o.method} ${o.path} ${o.summary}`.toLowerCase();
    return words.every((w) => hay.includes(w));
  };
  return all
    .map((g) => ({ ...g, operations: g.operations.filter((o) => hit(g, o)) }))
    .filter((g) => g.operations.length > 0);
}

const isNull = (s: Schema) => s.type === 'null';
/** Alternatives of a schema, without null. */
const choices = (s: Schema): Schema[] => (s.oneOf ?? s.anyOf ?? []).filter((c) => !isNull(c));

/** A schema with its references and "or null" resolved. */
export function resolve(doc: OpenApi, schema: Schema): Schema {
  const found = follow<Schema>(doc, schema);
  const one = choices(found);
  return one.length === 1 && !found.properties ? resolve(doc, one[0]!) : found;
}

/** Human-readable type name: `string`, `message[]`, `"open" | "archived"`, `date-time or null`. */
export function typeName(doc: OpenApi, schema: Schema): string {
  const name = refName(schema);
  const s = follow<Schema>(doc, schema);
  const types = Array.isArray(s.type) ? s.type : s.type ? [s.type] : [];
  const nullable = types.includes('null') || (s.oneOf ?? s.anyOf ?? []).some(isNull);
  const bare = (): string => {
    if (s.const !== undefined) return JSON.stringify(s.const);
    if (s.enum)
      return s.enum
        .filter((v) => v !== null)
        .map((v) => JSON.stringify(v))
        .join(' | ');
    if (name && (s.properties || s.oneOf || s.anyOf || s.allOf)) return name;
    const options = choices(s);
    if (options.length) return [...new Set(options.map((o) => typeName(doc, o)))].join(' | ');
    if (s.allOf) return s.allOf.map((o) => typeName(doc, o)).join(' & ');
    const type = types.find((t) => t !== 'null') ?? (s.properties ? 'object' : 'any');
    if (type === 'array') {
      const item = s.items ? typeName(doc, s.items) : 'any';
      return / [|&o]/.test(item) ? `(${item})[]` : `${item}[]`;
    }
    if (type === 'object' && typeof s.additionalProperties === 'object')
      return `map of ${typeName(doc, s.additionalProperties)}`;
    return type === 'string' && s.format ? s.format : type;
  };
  return nullable ? `${bare()} or null` : bare();
}

/** Limits and the default, as text. */
export function limits(schema: Schema): string {
  const range = (min: number | undefined, max: number | undefined, what: string) => {
    if (min !== undefined && max !== undefined) return `${min} to ${max}${what}`;
    if (min !== undefined) return `at least ${min}${what}`;
    return max === undefined ? '' : `at most ${max}${what}`;
  };
  return [
    range(schema.minimum, schema.maximum, ''),
    range(schema.minLength, schema.maxLength, ' characters'),
    range(schema.minItems, schema.maxItems, ' items'),
    schema.pattern ? `matches ${schema.pattern}` : '',
    schema.default !== undefined && schema.default !== null
      ? `default ${JSON.stringify(schema.default)}`
      : '',
  ]
    .filter(Boolean)
    .join(', ');
}

export interface Field {
  name: string;
  required: boolean;
  schema: Schema;
}
/** Fields of an object, including those of `allOf`; empty for other types. */
export function fields(doc: OpenApi, schema: Schema): Field[] {
  const s = resolve(doc, schema);
  const own = Object.entries(s.properties ?? {}).map(([name, value]) => ({
    name,
    required: s.required?.includes(name) ?? false,
    schema: value,
  }));
  return [...(s.allOf ?? []).flatMap((part) => fields(doc, part)), ...own];
}

/** Expandable parts of a value: the object itself, an array's items, a map's values, or each alternative. */
export function inner(doc: OpenApi, schema: Schema): { label: string; schema: Schema }[] {
  const s = resolve(doc, schema);
  if (fields(doc, s).length) return [{ label: '', schema: s }];
  const part = s.items ?? (typeof s.additionalProperties === 'object' ? s.additionalProperties : undefined);
  if (part) return inner(doc, part);
  return choices(s)
    .filter((c) => inner(doc, c).length > 0)
    .map((c, i) => ({ label: refName(c) ?? c.title ?? tagOf(doc, c) ?? `Choice ${i + 1}`, schema: c }));
}
/** Constant that distinguishes an alternative: its `type`, or else its first constant. */
function tagOf(doc: OpenApi, schema: Schema): string | undefined {
  const all = fields(doc, schema);
  for (const f of [...all.filter((f) => f.name === 'type'), ...all]) {
    const value = resolve(doc, f.schema);
    const only = value.const ?? (value.enum?.length === 1 ? value.enum[0] : undefined);
    if (typeof only === 'string') return `${f.name}: ${only}`;
  }
  return undefined;
}

/** Sample value: the document's own example, or a generated one. */
export function sample(doc: OpenApi, schema: Schema, depth = 0): unknown {
  const s = follow<Schema>(doc, schema);
  const given =
    schema.example ?? s.example ?? schema.examples?.[0] ?? s.examples?.[0] ?? s.const ?? s.default;
  if (given !== undefined && given !== null) return given;
  if (s.enum) return s.enum[0];
  const known = fields(doc, s);
  if (known.length)
    return depth >= DEPTH_MAX
      ? {}
      : Object.fromEntries(known.map((f) => [f.name, sample(doc, f.schema, depth + 1)]));
  const first = choices(s)[0];
  if (first) return sample(doc, first, depth);
  const type = Array.isArray(s.type) ? s.type.find((t) => t !== 'null') : s.type;
  switch (type) {
    case 'array':
      return s.items && depth < DEPTH_MAX ? [sample(doc, s.items, depth + 1)] : [];
    case 'object':
      return {};
    case 'integer':
    case 'number':
      return s.minimum ?? 0;
    case 'boolean':
      return false;
    case 'string':
      return s.format === 'date-time' ? '2026-01-31T09:30:00.000Z' : s.format === 'date' ? '2026-01-31' : '…';
    default:
      return null;
  }
}

/** curl command for an operation, with the required query parameters and body fields. */
export function curl(doc: OpenApi, op: Operation, origin: string): string {
  const query = op.parameters.filter((p) => p.in === 'query' && p.required).map((p) => `${p.name}=…`);
  const address = `${origin}${op.path}${query.length ? `?${query.join('&')}` : ''}`;
  const lines = [`curl ${op.method === 'get' ? '' : `-X ${op.method.toUpperCase()} `}'${address}'`];
  lines.push(`-H "Authorization: Bearer $OPENVIBE_KEY"`);
  if (op.body?.schema && op.body.media === 'application/json') {
    const all = (op.body.example ?? sample(doc, op.body.schema)) as Record<string, unknown>;
    const must = fields(doc, op.body.schema).filter((f) => f.required);
    const body =
      must.length && !op.body.example ? Object.fromEntries(must.map((f) => [f.name, all[f.name]])) : all;
    lines.push(`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(body).replace(/'/g, `'\\''`)}'`);
  }
  return lines.join(' \\\n  ');
}
