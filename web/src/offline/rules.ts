/** Requests that the service worker handles. All others, most notably API requests, bypass it. */
export type Handling = 'page' | 'asset' | 'file' | null;

/** Server paths that browsers open as pages. */
const SERVER = /^\/(v1|docs|healthz|readyz|metrics)(\/|$)/;

/**
 * `page`: a page of the client, from the network, or else cached. `asset`: its name contains a hash
 * of its content, so the cached one is always current. `file`: one of the shell's few files without
 * a hash, from the network, or else cached.
 */
export function handlingOf(
  request: { method: string; mode: string; url: string },
  origin: string,
  shell: readonly string[],
): Handling {
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== origin) return null;
  const { pathname } = url;
  if (request.mode === 'navigate') {
    const name = pathname.slice(pathname.lastIndexOf('/') + 1);
    return SERVER.test(pathname) || name.includes('.') ? null : 'page';
  }
  if (pathname === '/' || !shell.includes(pathname)) return null;
  return pathname.startsWith('/assets/') ? 'asset' : 'file';
}
