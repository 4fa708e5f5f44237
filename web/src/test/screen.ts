/**
 * Renders components in tests: with real state on the in-memory server, in a DOM without layout (happy-dom).
 */
import { cleanup, configure, render } from '@testing-library/svelte';
import type { Component } from 'svelte';
import { afterEach, beforeEach } from 'vitest';
import type { App } from '../context';
import { Router } from '../lib/router.svelte';
import { Session } from '../state/session.svelte';
import { Ui } from '../state/ui.svelte';
import { Scene } from './backend';
import { store } from './make';
import InWorkspace from './InWorkspace.svelte';
import { WAIT_MS } from './setup';

configure({ asyncUtilTimeout: WAIT_MS });

/**
 * Replacements for features that happy-dom lacks: sizes, so that lists show what fits on a wide screen, popovers, and
 * editing commands.
 */
const SIZE_PX = 100;
const WINDOW_PX = 1440;
interface HappyWindow {
  happyDOM: { setViewport(size: { width: number }): void };
}
class FixedSize implements ResizeObserver {
  #onresize: ResizeObserverCallback;
  constructor(onresize: ResizeObserverCallback) {
    this.#onresize = onresize;
  }
  observe(target: Element): void {
    const contentRect = new DOMRect(0, 0, SIZE_PX, SIZE_PX);
    const entry = {
      target,
      contentRect,
      borderBoxSize: [],
      contentBoxSize: [],
      devicePixelContentBoxSize: [],
    };
    queueMicrotask(() => this.#onresize([entry], this));
  }
  unobserve(): void {}
  disconnect(): void {}
}
function toggled(this: HTMLElement, newState: string): void {
  this.dispatchEvent(Object.assign(new Event('toggle'), { newState }));
}
function addLayout(): void {
  (window as unknown as HappyWindow).happyDOM.setViewport({ width: WINDOW_PX });
  window.ResizeObserver = FixedSize;
  // The browser refuses it, so that the text is set instead.
  document.execCommand = () => false;
  const { prototype } = HTMLElement;
  Object.defineProperty(prototype, 'offsetParent', { configurable: true, get: () => document.body });
  prototype.showPopover = function () {
    toggled.call(this, 'open');
  };
  prototype.hidePopover = function () {
    toggled.call(this, 'closed');
  };
}

/** Mia's workspace, started before each test. */
export class Screen {
  scene!: Scene;
  app!: App;

  constructor() {
    beforeEach(async () => {
      addLayout();
      this.scene = new Scene();
      await this.scene.ws.start();
      const api = this.scene.ws.api;
      this.app = { api, router: new Router(), session: new Session(api, store()), ui: new Ui() };
    });
    afterEach(() => {
      cleanup();
      this.scene.ws.stop();
    });
  }
  get ws() {
    return this.scene.ws;
  }
  show<Props extends Record<string, unknown>>(of: Component<Props>, props: Props): { unmount: () => void } {
    const part = of as Component<Record<string, unknown>>;
    return render(InWorkspace, { props: { app: this.app, ws: this.ws, of: part, props } });
  }
}
