// The index of the page, which a model in a worker makes. Here and not in the component: Vite replaces a component that is edited, and
// keeps this module and its model.
import { load } from 'heed';
import { notes } from './notes.js';

export const progress = $state({ done: 0, total: notes.length });

let model;

async function open() {
  const heed = await load();
  model = await heed.fromPretrained(undefined, { worker: true }); // the page stays responsive
  const onProgress = ({ done }) => {
    progress.done = done;
  };
  return heed.TextIndex.of(model, notes, { onProgress });
}

export const opening = open();

// In development, an edit of this file runs it again, with the same `data`: the worker of the run before ends.
if (import.meta.hot) {
  import.meta.hot.data.end?.();
  import.meta.hot.data.end = () => model?.dispose();
}
