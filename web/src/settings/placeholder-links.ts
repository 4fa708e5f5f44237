import type { Member, NewInvite } from '../api/types';
import { cell } from './usage';

/** Number of invites that one request creates. */
export const AT_ONCE = 100;
/** Lifetime of the links. */
export const LINK_DAYS = 30;

/** Parts of a list, in order. */
export function batches<T>(all: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let from = 0; from < all.length; from += size) parts.push(all.slice(from, from + size));
  return parts;
}

/** Table of links for a program that sends emails. */
export function linksTable(people: readonly Member[], invites: readonly NewInvite[]): string {
  const urls = new Map(invites.map((invite) => [invite.member_id, invite.url]));
  const lines = people.map((m) => [m.name, m.email, urls.get(m.user_id) ?? '']);
  return [['Name', 'Address', 'Link'], ...lines].map((line) => line.map(cell).join(',') + '\r\n').join('');
}
