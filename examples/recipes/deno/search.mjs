// The model of the package needs permission to read its files, and nothing else: no network, no environment variables.
import { load } from 'heed';

const heed = await load();
const model = await heed.fromPretrained();
const index = await heed.TextIndex.of(model, [
  'The cat sleeps on the sofa all afternoon.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
]);
const [best] = await index.search(Deno.args[0] ?? 'preparing a meal');
console.log(best.text);
