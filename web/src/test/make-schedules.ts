/** Schedules for unit tests; tests specify only the relevant fields. */
import type { Schedule } from '../api/schedules';

/** Mia's daily question to Vibe. */
export const schedule = (x: Partial<Schedule> = {}): Schedule => ({
  id: 'sched_1',
  object: 'schedule',
  name: 'Morning',
  cron: '0 9 * * *',
  timezone: 'Europe/Berlin',
  target: { type: 'agent', agent_id: 'agent_vibe', prompt: 'What is new?' },
  deliver: { channel_id: 'chan_1' },
  missed: 'run_once',
  status: 'active',
  paused_reason: null,
  owner_id: 'user_me',
  owner_name: 'Mia',
  next_run_at: '2026-01-06T08:00:00.000Z',
  last_slot: null,
  version: 1,
  ...x,
});
