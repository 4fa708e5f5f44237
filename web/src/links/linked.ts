/** Links to messages of this server that stand alone on a line show the message below the text. */
const QUOTES_MAX = 3;
/** Longer lines are no addresses. */
const ADDRESS_MAX = 300;

/** IDs of the messages that a text links to on lines of their own, at most three. */
export function linkedMessages(text: string, origin: string): string[] {
  const ids = new Set<string>();
  let fence = '';
  for (const line of text.split('\n')) {
    const address = line.trim();
    const mark = /^(?:`{3}|~{3})/.exec(address)?.[0] ?? '';
    if (mark && (!fence || fence === mark)) fence = fence ? '' : mark;
    if (mark || fence || address.length > ADDRESS_MAX) continue;
    const plain = address.replace(/^<(.*)>$/, '$1');
    if (!plain.startsWith(`${origin}/`) || /\s/.test(plain)) continue;
    const id = /(?:\/m\/|#[md]-)(msg_\w+)$/.exec(plain)?.[1];
    if (id) ids.add(id);
    if (ids.size === QUOTES_MAX) break;
  }
  return [...ids];
}
