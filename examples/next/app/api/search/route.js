// GET /api/search?q=...: the texts that are closest in meaning.
import { HeedError, load, semanticSearch } from 'heed';
import { texts } from './texts.js';

// In development, modules are evaluated again after each change; the model is kept.
globalThis.searchIndex ??= open();

async function open() {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { workers: 2 }); // requests do not block each other
  return { model, vectors: await model.embed(texts) };
}

export async function GET(request) {
  const query = new URL(request.url).searchParams.get('q') ?? '';
  if (query.trim() === '') return Response.json({ error: 'q is missing' }, { status: 400 });
  try {
    const { model, vectors } = await globalThis.searchIndex;
    // A client that goes away stops its computation; too long a query is an error instead of being cut silently.
    const vector = await model.embed(query, { signal: request.signal, truncation: false });
    const [hits] = semanticSearch(vector, vectors, { topK: 3 });
    return Response.json({ hits: hits.map(({ index, score }) => ({ text: texts[index], score })) });
  } catch (error) {
    if (error instanceof HeedError && error.code === 'TOO_LONG')
      return Response.json({ error: error.message }, { status: 413 });
    throw error;
  }
}
