/** Registers the service worker and reports whether the page works offline. */
import { computed, effect, signal } from '@preact/signals';
import { complete } from '../engine/heed';

/** Whether the service worker controls the page. */
const controlled = signal(false);
/** Files that are being kept. */
const pending = signal(0);
export const offlineReady = computed(() => controlled.value && pending.value === 0);
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
        controlled.value = true;
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
  await keepForOffline(performance.getEntriesByType('resource').map(({ name }) => name));
  await keepForOffline([...early]);
}

/** What workers fetched before the service worker controlled the page. */
const early = new Set<string>();
const kept = new Set<string>();

/** Fetches through the service worker what was fetched without it and is not in its list: modules, and scripts of parts that were opened first. */
export async function keepForOffline(names: readonly string[]): Promise<void> {
  const missing = names.filter(
    (name) => /\/assets\/[^?]+\.(wasm|js|css)$/.test(name) && name.startsWith(location.origin) && !kept.has(name),
  );
  if (!navigator.serviceWorker?.controller) {
    for (const name of missing) early.add(name);
    return;
  }
  for (const name of missing) kept.add(name);
  pending.value += missing.length;
  await Promise.all(
    missing.map((name) =>
      fetch(name).then(
        () => pending.value--,
        () => kept.delete(name),
      ),
    ),
  );
}
