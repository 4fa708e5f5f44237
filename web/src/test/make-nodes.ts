/** Nodes for unit tests; tests specify only the relevant fields. */
import type { ListedNode } from '../api/admin-types';
import { AT } from './make';

export const node = (x: Partial<ListedNode> = {}): ListedNode => ({
  id: 'node_1',
  name: 'web-1',
  version: '0.9.0',
  mode: 'notify',
  state: 'ready',
  is_this: true,
  started_at: AT,
  sockets: 1234,
  tasks: 2,
  queued_writes: 3,
  bus_delay_ms: 17.6,
  last_gap_at: null,
  clock_skew_ms: -12,
  differing_settings: [],
  epoch: '019ab1c2-d3e4-7f00-8000-000000000000',
  open_nats: null,
  encrypts_messages: true,
  ...x,
});
