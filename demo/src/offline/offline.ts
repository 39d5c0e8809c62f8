/** Registers the service worker and reports whether the page works offline. */
import { signal } from '@preact/signals';

export const offlineReady = signal(false);
export const online = signal(navigator.onLine);

export function followOffline(): void {
  for (const change of ['online', 'offline']) {
    addEventListener(change, () => {
      online.value = navigator.onLine;
    });
  }
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  // After the page has loaded, since the service worker downloads all files again.
  addEventListener('load', () => {
    navigator.serviceWorker.register('./sw.js').then(
      () =>
        navigator.serviceWorker.ready.then(() => {
          offlineReady.value = true;
        }),
      () => {
        // Some private windows and embedded frames forbid service workers. Once loaded, the page works offline all the same.
      },
    );
  });
}
