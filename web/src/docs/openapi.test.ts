import { describe, expect, it } from 'vitest';
import {
  curl,
  fields,
  groups,
  inner,
  limits,
  matching,
  sample,
  typeName,
  type OpenApi,
  type Schema,
} from './openapi';

const doc: OpenApi = {
  openapi: '3.1.0',
  info: { title: 'Test', version: '1' },
  tags: [{ name: 'threads', description: 'Where people talk.' }],
  paths: {
    '/healthz': { get: { responses: { '200': { description: 'Alive' } } } },
    '/v1/threads/{id}/messages': {
      parameters: [{ $ref: '#/components/parameters/id' }],
      get: { tags: ['threads'], summary: 'Read messages', responses: {} },
      post: {
        tags: ['threads'],
        summary: 'Post a message',
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/NewMessage' } } },
        },
        responses: { '201': { description: 'Posted', content: {} } },
      },
    },
  },
  components: {
    parameters: { id: { name: 'id', in: 'path', required: true, schema: { type: 'string' } } },
    schemas: {
      NewMessage: {
        type: 'object',
        required: ['content'],
        properties: {
          content: { type: 'string', example: "it's" },
          parent: { oneOf: [{ type: 'null' }, { $ref: '#/components/schemas/Message' }] },
        },
      },
      Message: {
        type: 'object',
        properties: {
          kind: { type: 'string', enum: ['text', 'notice'] },
          replies: { type: 'array', items: { $ref: '#/components/schemas/Message' } },
          edited_at: { type: ['string', 'null'], format: 'date-time' },
        },
      },
    },
  },
};
const schema = (name: string) => ({ $ref: `#/components/schemas/${name}` });

describe('the API document', () => {
  it('lists operations by tag, and those without one last', () => {
    const found = groups(doc).map((g) => [g.name, g.operations.map((o) => `${o.method} ${o.path}`)]);
    expect(found).toEqual([
      ['threads', ['get /v1/threads/{id}/messages', 'post /v1/threads/{id}/messages']],
      ['other', ['get /healthz']],
    ]);
  });

  it('gives an operation the parameters of its path', () => {
    expect(groups(doc)[0]!.operations[1]!.parameters.map((p) => p.name)).toEqual(['id']);
  });

  it('finds operations by words in any order', () => {
    const ids = (text: string) => matching(groups(doc), text).flatMap((g) => g.operations.map((o) => o.id));
    expect(ids('message post')).toEqual(['post-v1-threads-id-messages']);
    expect(ids('nothing like that')).toEqual([]);
  });

  it('names types as people would', () => {
    const name = (field: string) =>
      typeName(doc, fields(doc, schema('Message')).find((f) => f.name === field)!.schema);
    expect(name('kind')).toBe('"text" | "notice"');
    expect(name('replies')).toBe('Message[]');
    expect(name('edited_at')).toBe('date-time or null');
    expect(typeName(doc, fields(doc, schema('NewMessage'))[1]!.schema)).toBe('Message or null');
    expect(typeName(doc, { type: 'array', items: { type: ['string', 'null'] } })).toBe('(string or null)[]');
    expect(typeName(doc, { type: 'object', additionalProperties: { type: 'integer' } })).toBe(
      'map of integer',
    );
  });

  it('describes limits', () => {
    expect(limits({ minimum: 1, maximum: 100, default: 20 })).toBe('1 to 100, default 20');
    expect(limits({ maxLength: 80 })).toBe('at most 80 characters');
  });

  it('opens what lies inside a nullable object, and an array’s items', () => {
    const parent = fields(doc, schema('NewMessage'))[1]!.schema;
    expect(inner(doc, parent).map((p) => fields(doc, p.schema).length)).toEqual([3]);
    expect(inner(doc, { type: 'array', items: schema('Message') })).toHaveLength(1);
    expect(inner(doc, { type: 'string' })).toEqual([]);
  });

  it('names alternatives by their type, even if another constant comes first', () => {
    const item = (type: string): Schema => ({
      type: 'object',
      properties: { status: { const: 'completed' }, type: { const: type } },
    });
    const labels = inner(doc, { oneOf: [item('message'), item('call')] }).map((part) => part.label);
    expect(labels).toEqual(['type: message', 'type: call']);
  });

  it('puts a sample together although a schema contains itself', () => {
    expect(sample(doc, schema('Message'))).toMatchObject({
      kind: 'text',
      edited_at: '2026-01-31T09:30:00.000Z',
    });
  });

  it('writes a command that a shell takes as it is', () => {
    const post = groups(doc)[0]!.operations[1]!;
    expect(curl(doc, post, 'http://localhost:8080')).toBe(
      [
        `curl -X POST 'http://localhost:8080/v1/threads/{id}/messages'`,
        `-H "Authorization: Bearer $OPENVIBE_KEY"`,
        `-H 'Content-Type: application/json'`,
        `-d '{"content":"it'\\''s"}'`,
      ].join(' \\\n  '),
    );
  });
});
