/** The routes of deep dives, until the server's document has them. Answers are typed by api.ts. */
import type { NewFork } from './api';
import type { ActionItemPatch, ForkPatch, ResolutionEdit } from './types';

type Id = { path: { id: string } };
type Page = { limit?: number; after?: string; before?: string };
type Op<P, B = never> = {
  parameters: P;
  requestBody?: [B] extends [never] ? never : { content: { 'application/json': B } };
  responses: { 200: { content: { 'application/json': unknown } } };
};

export interface DivePaths {
  '/v1/threads/{id}/forks': { get: Op<Id & { query?: Page }>; post: Op<Id, NewFork> };
  '/v1/forks/{id}': { get: Op<Id>; patch: Op<Id, ForkPatch> };
  '/v1/forks/{id}/messages': {
    get: Op<Id & { query?: Page & { around?: string } }>;
    post: Op<Id, { content: string; client_id: string }>;
  };
  '/v1/forks/{id}/abandon': { post: Op<Id> };
  '/v1/forks/{id}/reopen': { post: Op<Id> };
  '/v1/forks/{id}/resolve': {
    post: Op<Id, { publish?: boolean; guidance?: string; replace_draft?: boolean }>;
  };
  '/v1/forks/{id}/resolution': {
    get: Op<Id>;
    patch: Op<Id & { header: { 'If-Match': string } }, ResolutionEdit>;
  };
  '/v1/forks/{id}/publish': {
    post: Op<Id & { header?: { 'If-Match'?: string } }, { resolution?: ResolutionEdit }>;
  };
  '/v1/forks/{id}/resolutions': { get: Op<Id & { query?: Page }> };
  '/v1/decisions': {
    get: Op<{ query?: { q?: string; channel_id?: string; limit?: number; cursor?: string } }>;
  };
  '/v1/action-items': {
    get: Op<{ query?: Page & { owner?: string; done?: boolean; channel_id?: string } }>;
  };
  '/v1/action-items/{id}': { patch: Op<Id, ActionItemPatch> };
}
