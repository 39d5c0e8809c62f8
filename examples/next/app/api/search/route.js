// GET /api/search?q=...: the texts that are closest in meaning.
import { HeedError, load } from 'heed';
import { texts } from './texts.js';

// In development, modules are evaluated again after each change; the model is kept.
globalThis.searchIndex ??= open();

async function open() {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { workers: 2 }); // requests do not block each other
  return { model, index: await heed.TextIndex.of(model, texts) };
}

export async function GET(request) {
  const query = new URL(request.url).searchParams.get('q') ?? '';
  if (query.trim() === '') return Response.json({ error: 'q is missing' }, { status: 400 });
  try {
    const { model, index } = await globalThis.searchIndex;
    // A client that goes away stops its computation; too long a query is an error instead of being cut silently.
    const vector = await model.embedQuery(query, { signal: request.signal, truncation: false });
    return Response.json({ hits: index.search(vector, { topK: 3 }).map(({ text, score }) => ({ text, score })) });
  } catch (error) {
    if (error instanceof HeedError && error.code === 'TOO_LONG')
      return Response.json({ error: error.message }, { status: 413 });
    throw error;
  }
}
