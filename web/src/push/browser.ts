import type { PushApi, PushStatus } from '../api/push';
import { deviceOf } from '../lib/device';
import { device } from '../lib/storage';
import { repairOf, type OwnSubscription } from './repair';

/** ID of the device that was turned on in this browser. */
const WANTED = 'openvibe.push';

/** `home`: on iOS, only an app on the Home Screen gets notifications. */
export type PushSupport = 'yes' | 'home' | 'no';

export function pushSupport(): PushSupport {
  if ('PushManager' in window && 'serviceWorker' in navigator && 'Notification' in window) return 'yes';
  const isTouchMac = navigator.userAgent.includes('Macintosh') && navigator.maxTouchPoints > 1;
  return isTouchMac || /\b(iPhone|iPad|iPod)\b/.test(navigator.userAgent) ? 'home' : 'no';
}
export const permission = (): NotificationPermission =>
  'Notification' in window ? Notification.permission : 'denied';
/** True if the user turned notifications on in this browser. */
export const isPushOn = (): boolean => permission() === 'granted' && device.get(WANTED) !== null;

const manager = async (): Promise<PushManager | null> =>
  (await navigator.serviceWorker.getRegistration())?.pushManager ?? null;

function textOf(bytes: ArrayBuffer | null): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes ?? new ArrayBuffer())));
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}
const ownOf = (sub: PushSubscription | null): OwnSubscription | null =>
  sub && { endpoint: sub.endpoint, key: textOf(sub.options.applicationServerKey) };

async function subscribe(api: PushApi, key: string): Promise<void> {
  const push = await manager();
  if (!push) throw new Error('OpenVibe is not installed completely: reload the page.');
  await (await push.getSubscription())?.unsubscribe();
  const sub = await push.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { p256dh = '', auth = '' } = sub.toJSON().keys ?? {};
  const label = deviceOf(navigator.userAgent).name.slice(0, 80);
  const made = await api.add({ endpoint: sub.endpoint, keys: { p256dh, auth }, label });
  device.set(WANTED, made.id);
}

/** Asks for the permission and subscribes this browser. Returns false if the user declined. */
export async function turnOnPush(api: PushApi): Promise<boolean> {
  const { public_key } = await api.status();
  if (!public_key) throw new Error('This server has no key for notifications.');
  if ((await Notification.requestPermission()) !== 'granted') return false;
  const before = device.get(WANTED);
  await subscribe(api, public_key);
  if (before && before !== device.get(WANTED)) await api.remove(before).catch(() => undefined);
  return true;
}

/** Removes a device, and the subscription if it is that of this browser. */
export async function removePush(api: PushApi, id: string, endpoint: string): Promise<void> {
  await api.remove(id);
  if (pushSupport() !== 'yes') return;
  const sub = await (await manager())?.getSubscription();
  if (device.get(WANTED) === id) device.remove(WANTED);
  if (sub?.endpoint === endpoint) await sub.unsubscribe();
}

/** Compares the browser's subscription with the server's devices, and repairs it. */
export async function repairPush(api: PushApi): Promise<void> {
  if (pushSupport() !== 'yes' || permission() !== 'granted') return;
  const push = await manager();
  if (!push) return;
  const [sub, status] = await Promise.all([push.getSubscription(), api.status()]);
  const wanted = device.get(WANTED);
  const repair = repairOf(permission(), wanted, ownOf(sub), status);
  if (repair.act === 'keep') device.set(WANTED, repair.id);
  else if (repair.act === 'forget') {
    device.remove(WANTED);
    await sub?.unsubscribe();
  } else if (repair.act === 'subscribe' && status.public_key) {
    await subscribe(api, status.public_key);
    const old = status.devices.find((d) => d.id === wanted || d.endpoint === sub?.endpoint);
    if (old && old.id !== device.get(WANTED)) await api.remove(old.id).catch(() => undefined);
  }
}

/** Lines of "Why don't I get notifications?". */
export function reasonsOf(status: PushStatus): string[] {
  const lines: string[] = [];
  if (pushSupport() === 'home')
    lines.push('Add OpenVibe to your Home Screen first: Share, then Add to Home Screen.');
  else if (pushSupport() === 'no') lines.push('This browser has no notifications.');
  else if (permission() === 'denied')
    lines.push('Your browser blocks notifications for this site. Allow them in its settings.');
  else if (permission() === 'default') lines.push('They are not turned on in this browser.');
  const own = status.devices.find((d) => d.id === device.get(WANTED));
  if (permission() === 'granted' && !own) lines.push('This browser is not among your devices.');
  if (!status.available)
    lines.push('The server has no secret key: an operator has to set OPENVIBE_SECRET_KEY.');
  if (!status.subject_ok) lines.push('iPhones and Macs will refuse notifications from this server.');
  const last = status.recent.find((r) => r.status !== null);
  if (last?.state === 'refused') lines.push(`${last.answer}.`);
  else if (last && last.status! >= 300)
    lines.push(`The last answer was ${last.status} ${last.answer ?? ''}`.trim());
  return lines;
}
