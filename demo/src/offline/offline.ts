/** Whether the page would open without a network. */
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
  // After the page's own work: fetching everything again must not delay it.
  addEventListener('load', () => {
    navigator.serviceWorker.register('./sw.js').then(
      () =>
        navigator.serviceWorker.ready.then(() => {
          offlineReady.value = true;
        }),
      () => {
        // Private windows and some embeddings forbid service workers; the loaded page still works offline.
      },
    );
  });
}
