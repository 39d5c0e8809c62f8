/** What an index's model computes besides vectors of queries: how it covers them, and vectors of texts with the data that identify it. */
import { makeYield } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import { coverageOf, type VocabularyCoverage } from '../models/coverage.js';
import type { ModelConfig } from '../models/model.js';
import { PROBE } from '../models/probe.js';
import { promptText, type Role, withPrompt } from '../models/prompts.js';
import {
  type EmbedFunctionOptions,
  embedFor,
  embedTexts,
  type IndexEmbedder,
  type IndexState,
  type Probe,
} from './index-model.js';
import { dimensionsOf } from './stored-vectors.js';
import type { Answer } from './vector-store.js';

/**
 * How well the vocabulary of an index's model covers queries. null for an embedder without `tokenize`, such as a
 * function, and for each query that a chat template has put into a message.
 */
export async function coverageOfQueries(
  embedder: IndexEmbedder,
  queries: readonly string[],
  signal: SignalLike | undefined,
): Promise<(VocabularyCoverage | null)[] | null> {
  if (typeof embedder === 'function' || typeof embedder.tokenize !== 'function') return null;
  const found = await embedder.tokenize(queries, { maxLength: Infinity, signal });
  return coverageOf(queries, found, makeYield(signal));
}

/**
 * Embeds documents for the store of an index, and computes the data that identify its model. Returns a function that
 * appends the vectors.
 */
export async function embedRows(
  state: IndexState,
  texts: readonly string[],
  { signal, onProgress }: Pick<EmbedFunctionOptions, 'signal' | 'onProgress'>,
): Promise<() => Answer<void>> {
  await knownProbe(state, signal);
  const vectors = await embedFor(state, 'document', texts, { signal, onProgress });
  return state.store.prepare(vectors, signal);
}

/** Computes the data that identify a model. `prompt` is the text before documents; null: the embedder's own. */
export async function probeOf(
  embedder: IndexEmbedder,
  prompt: string | null,
  signal: SignalLike | undefined,
): Promise<Probe> {
  const vectorOf = async (role: Role) => {
    const { data } = await embedTexts(embedder, role, [PROBE], role === 'query' ? null : prompt, {
      truncation: true,
      ...(signal && { signal }),
    });
    return Float32Array.from(data);
  };
  const config = typeof embedder === 'function' ? undefined : (embedder.config as Partial<ModelConfig> | undefined);
  const named = config?.prompts;
  const promptOf = (role: Role) => promptText(named!, withPrompt(named!, role, {}));
  return {
    document: await vectorOf('document'),
    query: await vectorOf('query'),
    prompts: named ? { document: prompt ?? promptOf('document'), query: promptOf('query') } : null,
    bits: bitsOf(config ?? {}),
  };
}

/**
 * Returns the data that identify the model of an index, or null if they cannot be known. For an index that was made
 * from vectors, this calls its embedder.
 */
export async function knownProbe(state: IndexState, signal?: SignalLike): Promise<Probe | null> {
  const { embedder, store, dimensions, prompt } = state;
  if (state.probe || !embedder || ('disposed' in embedder && embedder.disposed)) return state.probe;
  const probe = await probeOf(embedder, prompt, signal);
  const width = dimensionsOf(store) || dimensions;
  if (dimensions === null && width !== null && width !== probe.document.length) return null;
  state.probe = probe;
  return probe;
}

/** The number of bits per weight; 8 if the model does not report its storage. */
function bitsOf({ storage, dtype }: Partial<ModelConfig>): number {
  if (!storage || dtype === 'q8') return storage?.includes('U8') ? 4 : 8;
  return storage.includes('U8') ? 4 : storage.includes('I8') ? 8 : 16;
}
