/** Loads the typeface: at once if the service worker has it, otherwise after the module, without which the page cannot be used. */
import { effect } from '@preact/signals';
import { failure, heed } from '../engine/heed';
import href from '../styles/font.css?url';

export function followFont(): void {
  let requested = false;
  effect(() => {
    if (requested || !(navigator.serviceWorker?.controller || heed.value || failure.value)) return;
    requested = true;
    document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href }));
  });
}
