/** A thread or a fork. */
export interface ConversationRef {
  thread: string;
  fork: string | null;
}

/** Key of the draft of the composer that would post the message: `d:` fork, `t:` thread, `c:` channel. */
export const draftKeyOf = (
  channel: { id: string; kind: string },
  conversation: ConversationRef | null,
): string =>
  conversation?.fork
    ? `d:${conversation.fork}`
    : conversation && channel.kind !== 'direct'
      ? `t:${conversation.thread}`
      : `c:${channel.id}`;
