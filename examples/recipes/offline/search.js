import { load } from 'heed';

const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
  'The train to the coast leaves at half past six.',
];

export async function startSearch(field, list, status) {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { worker: true });
  const index = await heed.TextIndex.of(model, notes);
  const show = ({ text }) => Object.assign(document.createElement('li'), { textContent: text });
  const search = index.searchLatest((hits) => list.replaceChildren(...hits.map(show)), { topK: 3 });
  field.oninput = () => search(field.value);
  status.textContent = 'Ready, also without the network.';
}
