import type {
  BotDelivery,
  BotEventKind,
  BotSubscription,
  BotSubscriptionForm,
  EventTestResult,
  MissingMethod,
} from '../api/bots';
import { plural } from '../lib/time';

/** Names of events that a bot can get. */
export const EVENTS: Record<BotEventKind, string> = {
  'message.created': 'New message',
  'message.updated': 'Message edited',
  'message.deleted': 'Message deleted',
  'reaction.added': 'Reaction added',
  'reaction.removed': 'Reaction removed',
  'channel.updated': 'Channel changed',
  'channel.archived': 'Channel archived',
  'channel.member_added': 'Person added to a channel',
  'channel.member_removed': 'Person removed from a channel',
  'member.joined': 'Person joined the workspace',
  app_mention: 'The bot is mentioned',
  link_shared: 'Link to one of its domains',
};
export const EVENT_KINDS = Object.keys(EVENTS) as BotEventKind[];

/** Fields of the form for a subscription. */
export interface EventsDraft {
  transport: BotSubscription['transport'];
  url: string;
  format: BotSubscription['format'];
  events: readonly BotEventKind[];
  bots: boolean;
}
/** Fields of a subscription; of a new one, those with which most programs begin. */
export const draftOf = (known: BotSubscription | null): EventsDraft => ({
  transport: known?.transport ?? 'http',
  url: known?.url ?? '',
  format: known?.format ?? 'standard',
  events: known?.events ?? ['message.created', 'app_mention'],
  bots: known?.bots ?? false,
});
/** Body of the request. Limits to channels, which the form does not show, stay. */
export const formOf = (draft: EventsDraft, known: BotSubscription | null): BotSubscriptionForm => ({
  transport: draft.transport,
  ...(draft.transport === 'http' ? { url: draft.url.trim() } : {}),
  format: draft.format,
  events: [...draft.events],
  channel_ids: known?.channel_ids ?? null,
  bots: draft.bots,
});

/** Why the bot gets no events, or that it missed some; blank if all is well. */
export function troubleOf({ status, paused_reason: reason, missed }: BotSubscription): string {
  if (status === 'paused')
    return reason === 'gone'
      ? 'Paused: the program answered that it is gone (410).'
      : 'Paused: no answer for 3 days.';
  return missed ? `${plural(missed, 'event')} missed: the log no longer had them.` : '';
}

/** A method of Slack's API that the bot's program asked for in vain. */
export const missingText = ({ method, count }: MissingMethod): string =>
  `Asked ${count === 1 ? 'once' : `${count} times`} for ${method}: not offered`;

/** Result of a test in one line. */
export const testText = ({ status, answer, ms }: EventTestResult): string =>
  status === null ? answer : `${status} after ${ms} ms${answer ? `: ${answer}` : ''}`;

/** Result of the last attempt to send an event. */
export function attemptText({ attempts, status, answer }: BotDelivery): string {
  if (!attempts) return '';
  const last = status === null ? (answer ?? 'no answer') : String(status);
  return `${plural(attempts, 'failure')}, last: ${last}`;
}
