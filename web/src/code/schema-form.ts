import { withCodes } from '../lib/text';

/** Field of a form that an agent shows, as in the elicitation of its protocol: a flat object of simple values. */
export interface FormField {
  name: string;
  label: string;
  hint: string;
  kind: 'text' | 'number' | 'boolean' | 'choice' | 'choices';
  required: boolean;
  /** Values and their names, for a choice. */
  options: [value: string, label: string][];
  initial: FieldValue;
  /** Type of an input for text. */
  type: 'text' | 'email' | 'url' | 'date' | 'datetime-local';
  isWhole: boolean;
  min: number | undefined;
  max: number | undefined;
}
export type FieldValue = string | boolean | string[];

const FIELDS_MAX = 50;
const OPTIONS_MAX = 200;
const TYPES: Partial<Record<string, FormField['type']>> = {
  email: 'email',
  uri: 'url',
  date: 'date',
  'date-time': 'datetime-local',
};

type Schema = Record<string, unknown>;
const isObject = (x: unknown): x is Schema => typeof x === 'object' && x !== null && !Array.isArray(x);
const textOf = (x: unknown): string => (typeof x === 'string' ? withCodes(x) : '');
const numberOf = (x: unknown): number | undefined => (typeof x === 'number' ? x : undefined);

/** Options of `enum`, or of `oneOf` and `anyOf` with titles; null if there are none. */
function optionsOf(of: Schema): FormField['options'] | null {
  const titled = [of.oneOf, of.anyOf].find(Array.isArray) as unknown[] | undefined;
  const names = Array.isArray(of.enumNames) ? (of.enumNames as unknown[]) : [];
  const given: [unknown, unknown][] | null = titled
    ? titled.filter(isObject).map((one) => [one.const, one.title])
    : Array.isArray(of.enum)
      ? of.enum.map((value: unknown, n) => [value, names[n]])
      : null;
  if (!given) return null;
  const options = given.filter((one): one is [string, unknown] => typeof one[0] === 'string');
  return options.slice(0, OPTIONS_MAX).map(([value, title]) => [value, textOf(title) || withCodes(value)]);
}

function fieldOf(name: string, of: Schema, required: boolean): FormField | null {
  const { type, default: given } = of;
  const field: FormField = {
    name,
    label: textOf(of.title) || withCodes(name),
    hint: textOf(of.description),
    kind: 'text',
    required,
    options: [],
    initial: typeof given === 'string' || typeof given === 'number' ? String(given) : '',
    type: TYPES[String(of.format)] ?? 'text',
    isWhole: type === 'integer',
    min: numberOf(type === 'string' ? of.minLength : of.minimum),
    max: numberOf(type === 'string' ? of.maxLength : of.maximum),
  };
  if (type === 'array' && isObject(of.items)) {
    const options = optionsOf(of.items);
    const initial = Array.isArray(given) ? given.filter((x): x is string => typeof x === 'string') : [];
    const [min, max] = [numberOf(of.minItems), numberOf(of.maxItems)];
    return options && { ...field, kind: 'choices', options, initial, min, max };
  }
  if (type === 'boolean') return { ...field, kind: 'boolean', initial: given === true };
  if (type === 'number' || type === 'integer') return { ...field, kind: 'number' };
  if (type !== 'string') return null;
  const options = optionsOf(of);
  return options ? { ...field, kind: 'choice', options } : field;
}

/** Fields of a form; null if it has one that cannot be shown. */
export function fieldsOf(schema: unknown): FormField[] | null {
  if (!isObject(schema) || !isObject(schema.properties)) return null;
  const all = Object.entries(schema.properties);
  const required = Array.isArray(schema.required) ? (schema.required as unknown[]) : [];
  const fields = all.map(([name, of]) => (isObject(of) ? fieldOf(name, of, required.includes(name)) : null));
  return all.length <= FIELDS_MAX && fields.every((field) => field !== null) ? fields : null;
}

/** Object to send. Optional fields without a value are left out. */
export function answerOf(fields: FormField[], values: Record<string, FieldValue>): Record<string, unknown> {
  const answer: [string, unknown][] = [];
  for (const { name, kind, required, type } of fields) {
    const value = values[name];
    if (value === undefined) continue;
    if (kind === 'boolean' || Array.isArray(value)) {
      if (required || kind === 'boolean' || (value as string[]).length) answer.push([name, value]);
    } else if (value !== '') {
      const isTime = type === 'datetime-local' && typeof value === 'string';
      answer.push([name, kind === 'number' ? Number(value) : isTime ? new Date(value).toISOString() : value]);
    }
  }
  return Object.fromEntries(answer);
}
/** True if every field has a value that fits. The server checks it, too. */
export const isComplete = (fields: FormField[], values: Record<string, FieldValue>): boolean =>
  fields.every(({ name, kind, required, isWhole, min = -Infinity, max = Infinity }) => {
    const value = values[name];
    if (kind === 'boolean') return true;
    if (value === undefined || value === '') return !required;
    if (Array.isArray(value))
      return (!required && !value.length) || (value.length >= min && value.length <= max);
    const size = kind === 'number' ? Number(value) : kind === 'text' ? String(value).length : 0;
    if (kind === 'choice') return true;
    return Number.isFinite(size) && size >= min && size <= max && (!isWhole || Number.isInteger(size));
  });
