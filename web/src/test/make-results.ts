/** Forks and resolutions for unit tests. */
import type { Fork, Resolution, ResolutionAction } from '../api/types';
import { AT } from './make';

export function fork(x: Partial<Fork> = {}): Fork {
  return {
    id: 'fork_1',
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    thread_id: 'thread_1',
    message_id: 'msg_1',
    title: 'Friday or Monday',
    description: null,
    agent_id: 'agent_vibe',
    agent_version: 1,
    auto_reply: true,
    context: 'message',
    status: 'active',
    stale: false,
    message_count: 4,
    created_by: 'user_me',
    created_at: AT,
    resolved_at: null,
    resolution_id: null,
    draft_id: null,
    presets: [],
    collaboration: null,
    ...x,
  };
}
export const action = (x: Partial<ResolutionAction> = {}): ResolutionAction => ({
  id: 'item_1',
  text: 'Book the room',
  sources: ['msg_2'],
  owner_id: null,
  owner_name: null,
  due: null,
  done: false,
  ...x,
});
export function result(x: Partial<Resolution> = {}): Resolution {
  return {
    id: 'res_1',
    workspace_id: 'ws_1',
    channel_id: 'chan_1',
    thread_id: 'thread_1',
    fork_id: 'fork_1',
    fork_title: 'Friday or Monday',
    version: 1,
    status: 'draft',
    generated_by: 'agent_vibe',
    edited_by: [],
    headline: 'Launch on Monday',
    conclusion: 'Two quiet days before the fair.',
    key_points: [
      { text: 'The fair is on Wednesday', sources: ['msg_1'] },
      { text: 'Nobody deploys on a Friday', sources: ['msg_2', 'msg_1'] },
    ],
    action_items: [action()],
    open_questions: [],
    deferred_items: [],
    fallback_reason: null,
    covers_seq: 5,
    revision: 1,
    message_id: null,
    published_by: null,
    created_at: AT,
    updated_at: AT,
    published_at: null,
    ...x,
  };
}
