// A Cloudflare Worker that answers /?q=preparing+a+meal. Workers compile no WebAssembly and have no files, so the module and the model are
// imported as parts of the program; wrangler.toml says which types they have.
import { load } from 'heed';
import wasm from 'heed/heed-simd128.wasm';
import bytes from 'heed/model/model.safetensors';

const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
];

/** The index, made by the first request and shared by the following ones. */
let opening;
async function open() {
  const heed = await load({ wasm });
  const model = await heed.fromPretrained(bytes, { dtype: 'q8' });
  return heed.TextIndex.of(model, notes);
}

export default {
  async fetch(request) {
    const query = new URL(request.url).searchParams.get('q')?.trim();
    if (!query) return Response.json({ error: 'q is missing' }, { status: 400 });
    opening ??= open().catch((error) => {
      opening = undefined; // the next request tries again
      throw error;
    });
    const index = await opening;
    return Response.json({ hits: await index.search(query, { topK: 3 }) });
  },
};
