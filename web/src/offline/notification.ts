/** Content of a push message, as the server writes it. */
export interface PushPayload {
  item: string | null;
  tag: string;
  title: string;
  body: string;
  url: string;
  badge: number | null;
}
export interface ShownNotification {
  title: string;
  options: NotificationOptions & { actions?: { action: string; title: string }[] };
  badge: number | null;
}

/**
 * The notification of a push message. Each message shows one, even if it cannot be read: iOS ends a subscription after three that show
 * none. It makes no sound while a window is visible.
 */
export function notificationOf(text: string, isVisible: boolean): ShownNotification {
  let p: Partial<PushPayload> = {};
  try {
    p = JSON.parse(text) as Partial<PushPayload>;
  } catch {
    // an unknown message
  }
  const item = p.item ?? null;
  const options: ShownNotification['options'] = {
    body: p.body ?? '',
    tag: p.tag ?? 'openvibe',
    icon: '/favicon.svg',
    silent: isVisible,
    data: { url: p.url?.startsWith('/') ? p.url : '/', item },
  };
  if (item)
    options.actions = [
      { action: 'done', title: 'Done' },
      { action: 'later', title: 'Later' },
    ];
  return { title: p.title || 'New message', options, badge: p.badge ?? null };
}

/** Change of an item by a button of its notification: done, or open again tomorrow at 9:00. */
export function changeOf(action: string, item: string, now = new Date()): object | null {
  if (action === 'done') return { ids: [item], state: 'done' };
  if (action !== 'later') return null;
  const until = new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 9);
  return { ids: [item], state: 'later', until: until.toISOString() };
}
