/**
 * The service worker: opens the client without a network. Its cache contains only the client's own
 * files, and neither API responses nor users' files. Each build has its own cache, and pages come
 * from the network when it is available, so that a new server version takes effect with the next
 * load.
 */
import { changeOf, notificationOf } from './notification';
import { handlingOf } from './rules';

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Lasting {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}
interface Pushed extends Lasting {
  readonly data: { text(): string } | null;
}
interface Clicked extends Lasting {
  readonly action: string;
  readonly notification: Notification;
}
interface Changed extends Lasting {
  readonly oldSubscription?: PushSubscription | null;
  readonly newSubscription?: PushSubscription | null;
}
interface Page {
  readonly url: string;
  readonly visibilityState: DocumentVisibilityState;
  focus(): Promise<unknown>;
  navigate(url: string): Promise<unknown>;
}
interface Worker {
  readonly location: Location;
  readonly navigator: Navigator;
  readonly registration: ServiceWorkerRegistration;
  readonly clients: {
    claim(): Promise<void>;
    matchAll(of: { type: 'window'; includeUncontrolled: boolean }): Promise<Page[]>;
    openWindow(url: string): Promise<unknown>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(type: 'install' | 'activate', listener: (e: Lasting) => void): void;
  addEventListener(type: 'fetch', listener: (e: Fetching) => void): void;
  addEventListener(type: 'push', listener: (e: Pushed) => void): void;
  addEventListener(type: 'notificationclick', listener: (e: Clicked) => void): void;
  addEventListener(type: 'pushsubscriptionchange', listener: (e: Changed) => void): void;
}
declare const self: Worker;
/** Inserted by the build (vite.config.ts): the version and the paths of the client's files. */
declare const SHELL: { version: string; paths: string[] };

const PREFIX = 'openvibe-shell-';
const NAME = PREFIX + SHELL.version;
const PAGE = '/';

const install = async (): Promise<void> => {
  const cache = await caches.open(NAME);
  // `no-cache`: revalidates files whose names do not contain a hash. If any file is missing, this version is not
  // installed.
  await cache.addAll(
    SHELL.paths.map(
      (path) => new Request(path, { cache: path.startsWith('/assets/') ? 'default' : 'no-cache' }),
    ),
  );
  await self.skipWaiting();
};
const activate = async (): Promise<void> => {
  for (const name of await caches.keys())
    if (name.startsWith(PREFIX) && name !== NAME) await caches.delete(name);
  await self.clients.claim();
};
const cached = async (path: string): Promise<Response | undefined> =>
  (await caches.open(NAME)).match(path, { ignoreVary: true });

/** The cached page is also used if a proxy responds for a server that is restarting. */
const page = async (request: Request): Promise<Response> => {
  const fresh = await fetch(request).catch(() => null);
  if (fresh && fresh.status < 500) return fresh;
  return (await cached(PAGE)) ?? fresh ?? Response.error();
};
const asset = async (request: Request, path: string): Promise<Response> =>
  (await cached(path)) ?? fetch(request);
const file = async (request: Request, path: string): Promise<Response> =>
  fetch(request).catch(async () => (await cached(path)) ?? Response.error());

const windows = () => self.clients.matchAll({ type: 'window', includeUncontrolled: true });

const show = async (text: string): Promise<void> => {
  const isVisible = (await windows()).some((page) => page.visibilityState === 'visible');
  const { title, options, badge } = notificationOf(text, isVisible);
  await self.registration.showNotification(title, options);
  if (badge !== null) await self.navigator.setAppBadge?.(badge).catch(() => undefined);
};
const send = (method: string, path: string, body: object, workspace = ''): Promise<Response> =>
  fetch(path, {
    method,
    headers: { 'Content-Type': 'application/json', ...(workspace && { 'X-Workspace-Id': workspace }) },
    body: JSON.stringify(body),
  });
/** Changes an item from its notification. Returns false if the server did not accept it. */
const change = async (url: string, body: object): Promise<boolean> => {
  try {
    const me = (await (await fetch('/v1/auth/me')).json()) as { workspaces: { id: string; slug: string }[] };
    const workspace = me.workspaces.find((w) => w.slug === url.split('/')[1]);
    return !!workspace && (await send('PUT', '/v1/inbox/state', body, workspace.id)).ok;
  } catch {
    return false;
  }
};
/** Focuses a window at the conversation, or opens one. */
const open = async (url: string): Promise<void> => {
  const all = await windows();
  const page = all.find((one) => new URL(one.url).pathname === url.split(/[?#]/)[0]) ?? all[0];
  if (!page) return void (await self.clients.openWindow(url));
  await page.focus();
  await page.navigate(url).catch(() => self.clients.openWindow(url));
};
const click = async (action: string, { url, item }: { url: string; item: string | null }): Promise<void> => {
  const body = item ? changeOf(action, item) : null;
  if (!body || !(await change(url, body))) await open(url);
};
/** The browser replaced the subscription; if this fails, the next start repairs it. */
const renew = async (e: Changed): Promise<void> => {
  const options = e.oldSubscription?.options;
  const sub = e.newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)));
  if (!sub) return;
  const { p256dh, auth } = sub.toJSON().keys ?? {};
  await send('POST', '/v1/push/devices', {
    endpoint: sub.endpoint,
    keys: { p256dh, auth },
    label: 'Browser',
  });
};

self.addEventListener('push', (e) => e.waitUntil(show(e.data?.text() ?? '')));
self.addEventListener('notificationclick', (e) => {
  e.notification.close();
  e.waitUntil(click(e.action, e.notification.data as { url: string; item: string | null }));
});
self.addEventListener('pushsubscriptionchange', (e) => e.waitUntil(renew(e)));
self.addEventListener('install', (e) => e.waitUntil(install()));
self.addEventListener('activate', (e) => e.waitUntil(activate()));
self.addEventListener('fetch', (e) => {
  const { request } = e;
  const handling = handlingOf(request, self.location.origin, SHELL.paths);
  if (!handling) return;
  const path = new URL(request.url).pathname;
  if (handling === 'page') e.respondWith(page(request));
  else e.respondWith(handling === 'asset' ? asset(request, path) : file(request, path));
});
