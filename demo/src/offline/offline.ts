/** Registers the service worker and reports whether the page works offline. */
import { effect, signal } from '@preact/signals';
import { complete } from '../engine/heed';

export const offlineReady = signal(false);
export const online = signal(navigator.onLine);

export function followOffline(): void {
  for (const change of ['online', 'offline']) {
    addEventListener(change, () => {
      online.value = navigator.onLine;
    });
  }
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  // When all has been downloaded, since the service worker requests it again; never if the reader saves data.
  let isRegistered = false;
  effect(() => {
    if (!complete.value || isRegistered) return;
    isRegistered = true;
    register().then(
      () => {
        offlineReady.value = true;
      },
      () => {
        // Some private windows and embedded frames forbid service workers. Once loaded, the page works offline all the same.
      },
    );
  });
}

async function register(): Promise<void> {
  const { serviceWorker } = navigator;
  await serviceWorker.register('./sw.js');
  await serviceWorker.ready;
  if (!serviceWorker.controller)
    await new Promise((resolve) => serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
  // Of the builds of the WebAssembly module, the service worker keeps those that pass through it: the one that runs here.
  const modules = performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('.wasm'));
  await Promise.all(modules.map(({ name }) => fetch(name)));
}
