import type { ChannelAgent, ChannelAgentMode } from '../api/types';

/** Replies per day, unless another number is set. */
export const DAILY_REPLIES = 100;
export const MODES: readonly { mode: ChannelAgentMode; label: string; note: string }[] = [
  { mode: 'off', label: 'Off', note: 'It doesn’t reply in this channel. Mentions of it are text.' },
  { mode: 'mentions', label: 'When mentioned', note: 'It replies to mentions, as in every channel.' },
  {
    mode: 'roots',
    label: 'Each new thread',
    note: 'It also replies to the first message of each thread, unless the message mentions somebody.',
  },
  {
    mode: 'all',
    label: 'Every message',
    note: 'It also replies to every message in new threads, unless the message mentions somebody.',
  },
];

export const isSameAgent = (a: ChannelAgent | null, b: ChannelAgent | null): boolean =>
  a?.agent_id === b?.agent_id && a?.mode === b?.mode && a?.daily_max === b?.daily_max;
