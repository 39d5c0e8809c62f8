// The index of the page, which a model in a worker makes. Here and not in the component: Vite replaces a component that is edited, and
// keeps this module and its model.
import { load } from 'heed';
import { ref, shallowRef } from 'vue';
import { notes } from './notes.js';

export const status = ref('Loading the model…');
export const index = shallowRef(null); // until it has been made

let model;

async function open() {
  const heed = await load();
  model = await heed.fromPretrained(undefined, { worker: true }); // the page stays responsive
  const onProgress = ({ done, total }) => {
    status.value = `${done} of ${total} notes`;
  };
  index.value = await heed.TextIndex.of(model, notes, { onProgress });
  status.value = 'Ready';
}

export function showError(error) {
  status.value = error.message;
}

open().catch(showError);

// In development, an edit of this file runs it again, with the same `data`: the worker of the run before ends.
if (import.meta.hot) {
  import.meta.hot.data.end?.();
  import.meta.hot.data.end = () => model?.dispose();
}
