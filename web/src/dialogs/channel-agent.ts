import type { ChannelAgent, ChannelAgentMode } from '../api/types';

/** Replies per day, unless another number is set. */
export const DAILY_REPLIES = 100;
export const MODES: readonly { mode: ChannelAgentMode; label: string; note: string }[] = [
  { mode: 'off', label: 'Off', note: 'It doesn’t reply in this channel. Mentions of it are text.' },
  { mode: 'mentions', label: 'When mentioned', note: 'It replies when somebody mentions it.' },
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

/** What a channel's agent does unasked: "Vibe answers each new thread". Empty if it does nothing. */
export function answersText(name: string, mode: ChannelAgentMode): string {
  if (mode === 'roots') return `${name} answers each new thread`;
  return mode === 'all' ? `${name} answers every message` : '';
}

export const isSameAgent = (a: ChannelAgent | null, b: ChannelAgent | null): boolean =>
  a?.agent_id === b?.agent_id && a?.mode === b?.mode && a?.daily_max === b?.daily_max;
