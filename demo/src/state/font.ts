/** Loads the typeface: at once if the service worker has it, otherwise after what the page needs; until then, system fonts of the same width stand in. */
import { effect } from '@preact/signals';
import { failure, heed, savesData, shipped } from '../engine/heed';
import href from '../styles/font.css?url';

export function followFont(): void {
  let requested = false;
  effect(() => {
    const isUsable = savesData ? heed.value : shipped.value;
    if (requested || !(navigator.serviceWorker?.controller || isUsable || failure.value)) return;
    requested = true;
    document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href }));
  });
}
