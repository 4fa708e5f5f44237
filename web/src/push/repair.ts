import type { PushStatus } from '../api/push';

/** Subscription of this browser. */
export interface OwnSubscription {
  endpoint: string;
  /** Key with which it was made, in base64url. */
  key: string;
}
/** `keep`: it works as this device. `subscribe`: it was lost or has an old key. `forget`: the device was removed. */
export type Repair = { act: 'keep'; id: string } | { act: 'subscribe' | 'forget' | 'none' };

/**
 * What has to be done at a start. `wanted` is the ID of the device that was turned on in this browser; the subscription is compared with
 * the server's devices and key only.
 */
export function repairOf(
  permission: NotificationPermission,
  wanted: string | null,
  own: OwnSubscription | null,
  { available, public_key, devices, recent }: PushStatus,
): Repair {
  if (!available || permission !== 'granted') return { act: 'none' };
  const known = own && devices.find((d) => d.endpoint === own.endpoint);
  if (known && own.key === public_key) return { act: 'keep', id: known.id };
  const isListed = devices.some((d) => d.id === wanted);
  const isGone = recent.some((r) => r.device_id === wanted && r.state === 'gone');
  if (known || (wanted && (isListed || isGone))) return { act: 'subscribe' };
  return { act: own || wanted ? 'forget' : 'none' };
}
