/** Loads the typeface: at once if the service worker has it, otherwise after the module, without which the page cannot be used. */
import { effect } from '@preact/signals';
import { failure, heed } from '../engine/heed';

export function followFont(): void {
  const stop = effect(() => {
    if (!navigator.serviceWorker?.controller && !heed.value && !failure.value) return;
    queueMicrotask(() => stop());
    void import('../styles/font.css');
  });
}
