import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

/** Key for subscriptions, the user's devices, and the last notifications. */
export type PushStatus = S['PushStatus'];
export type PushDevice = S['PushDevice'];
export type PushDeviceForm = S['PushDeviceForm'];
export type PushTestResult = S['PushTestResult'];
export type RecentDelivery = S['RecentDelivery'];
export type NotificationSettings = S['NotificationSettings'];
/** Most that notifications of a workspace show. */
export type PreviewMax = S['PreviewMax'];

/** API client for notifications, `api.part(PushApi)`. Loaded after startup. */
export class PushApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  status(): Promise<PushStatus> {
    return this.#take(this.#http.GET('/v1/push'));
  }
  add(body: PushDeviceForm): Promise<PushDevice> {
    return this.#take(this.#http.POST('/v1/push/devices', { body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/push/devices/{id}', at({ id })));
  }
  test(id: string): Promise<PushTestResult> {
    return this.#take(this.#http.POST('/v1/push/devices/{id}/test', at({ id })));
  }
  settings(): Promise<NotificationSettings> {
    return this.#take(this.#http.GET('/v1/notification-settings'));
  }
  async previewMax(workspace: string): Promise<PreviewMax> {
    const policy = this.#http.GET('/v1/workspaces/{id}/policy', at({ id: workspace }));
    return (await this.#take(policy)).preview_max;
  }
  /** Fails with `Conflict` if the settings have changed since they were read. */
  change({ version, ...body }: NotificationSettings): Promise<NotificationSettings> {
    const header = { 'If-Match': `"${version}"` };
    return this.#take(this.#http.PUT('/v1/notification-settings', { params: { header }, body }));
  }
}
