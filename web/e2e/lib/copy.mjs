// The copy of a workspace on this device, as it is stored in IndexedDB.
import assert from 'node:assert/strict';

/** Names of the databases with copies. */
export const databases = (page) =>
  page.evaluate(async () =>
    (await indexedDB.databases()).map((d) => d.name).filter((n) => /^openvibe\./.test(n)),
  );
/** Content of the only copy; null if there is none. */
export const stored = (page) =>
  page.evaluate(async () => {
    const [found] = (await indexedDB.databases()).filter((d) => d.name.startsWith('openvibe.'));
    if (!found) return null;
    const done = (request) =>
      new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
    const database = await done(indexedDB.open(found.name));
    const transaction = database.transaction(['state', 'conversations']);
    const state = await done(transaction.objectStore('state').get('workspace'));
    const all = await done(transaction.objectStore('conversations').getAll());
    database.close();
    if (!state) return null; // the first write has not ended
    return {
      seq: state.snapshot.seq,
      user: state.snapshot.me.id,
      items: state.items?.map((i) => i.text) ?? [],
      texts: all.flatMap((c) => c.messages.map((m) => m.content)),
      everything: JSON.stringify([state, all]),
    };
  });
export const until = async (check) => {
  for (const end = Date.now() + 60_000; !(await check());) {
    assert.ok(Date.now() < end, `${check}`);
    await new Promise((done) => setTimeout(done, 50));
  }
};
/** Ends a window that is offline. Closing it would put it online for a moment, in which it sends what waits. */
export const crash = async (p) => {
  const cdp = await p.context.newCDPSession(p.page);
  const crashed = p.page.waitForEvent('crash');
  cdp.send('Page.crash').catch(() => undefined);
  await crashed;
  await p.page.close();
};
