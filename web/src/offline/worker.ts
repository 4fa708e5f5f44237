/**
 * The service worker: opens the client without a network. Its cache contains only the client's own
 * files, and neither API responses nor users' files. Each build has its own cache, and pages come
 * from the network when it is available, so that a new server version takes effect with the next
 * load.
 */
import { handlingOf } from './rules';

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Lasting {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}
interface Worker {
  readonly location: Location;
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(type: 'install' | 'activate', listener: (e: Lasting) => void): void;
  addEventListener(type: 'fetch', listener: (e: Fetching) => void): void;
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
