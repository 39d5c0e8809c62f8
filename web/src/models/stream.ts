/** Streams results for lists that are long or still arriving. */
import { describe, guarded, invalid } from '../base/error.js';
import { abortable } from '../base/event-loop.js';
import { optional, plainOptions, signal as signalOption, size, text } from '../base/options.js';
import { linkedAbort, type SignalLike } from '../base/platform.js';
import { type EmbedCall, type EncodeCall, type EncodeResultFor, type PretrainedModel, requireModel } from './model.js';
import { type Role, readRole } from './prompts.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

/** Texts in memory, or texts that arrive from a file, a stream or a database. */
export type TextStream = Iterable<string> | AsyncIterable<string>;

/** Options of `embedStream` and `encodeStream`. */
export interface StreamOptions {
  /** The number of texts per result; the last result may have fewer. Default: 64 per worker of the model. */
  batchSize?: number | undefined;
}

/** The vectors of one batch of texts, in order. */
export interface EmbedBatch<O extends VectorOutput = 'float32'> {
  /** The index of the first text of the batch. */
  start: number;
  /** The texts of the batch. */
  texts: string[];
  /** Their vectors, [N,D]. */
  vectors: VectorsOf<O>;
}

/** The result of `encode` for one batch of texts. */
export interface EncodeBatch<A extends boolean, S extends boolean, P extends boolean> {
  /** The index of the first text of the batch. */
  start: number;
  /** The texts of the batch. */
  texts: string[];
  /** What `encode` returns for them. */
  outputs: EncodeResultFor<A, S, P>;
}

/** Options that refer to all texts of a call, which streams do not support. */
type WholeCall = 'textPairs' | 'onProgress' | 'edit';

/**
 * Embeds texts in batches and yields each batch's vectors, in the order of the texts. While the caller handles a batch,
 * the next one is computed. Only the next batches are read ahead, so memory does not depend on the number of texts.
 * Leaving the loop, or `signal`, stops the computation. `role` selects the prompt as `embedQuery` and `embedDocument`
 * do; the other options are those of `embed`.
 *
 * @example
 * for await (const { start, texts, vectors } of embedStream(model, ['a fox', 'a dog'], { role: 'document', batchSize: 1 }))
 *   console.log(start, texts, vectors.shape);
 * @throws HeedError INVALID_ARGUMENT if `texts` is not an iterable of strings; otherwise as `embed`
 */
export function embedStream<O extends VectorOutput = 'float32'>(
  model: PretrainedModel,
  texts: TextStream,
  options?: Omit<EmbedCall<O>, WholeCall> & StreamOptions & { role?: Role | undefined },
): AsyncGenerator<EmbedBatch<O>, void, undefined> {
  const { role, ...rest } = plainOptions('embedStream', options);
  const kind = optional(readRole, null)(role, 'embedStream.role');
  const method = kind === null ? 'embed' : kind === 'query' ? 'embedQuery' : 'embedDocument';
  const embed = (batch: string[], call: object) => model[method]<O>(batch, call);
  return batches('embedStream', model, method, texts, rest, embed, 'vectors');
}

/**
 * Runs `encode` in batches and yields each batch's outputs; otherwise works like `embedStream`. Each batch is padded to
 * its own longest text.
 *
 * @example
 * for await (const { start, outputs } of encodeStream(model, ['a fox', 'a dog'], { batchSize: 1 }))
 *   console.log(start, outputs.tokens, outputs.lastHiddenState.shape);
 * @throws HeedError as `embedStream`
 */
export function encodeStream<A extends boolean = false, S extends boolean = false, P extends boolean = false>(
  model: PretrainedModel,
  texts: TextStream,
  options?: Omit<EncodeCall<A, S, P>, WholeCall> & StreamOptions,
): AsyncGenerator<EncodeBatch<A, S, P>, void, undefined> {
  const rest = plainOptions('encodeStream', options);
  const encode = (batch: string[], call: object) => model.encode<A, S, P>(batch, call as EncodeCall<A, S, P>);
  return batches('encodeStream', model, 'encode', texts, rest, encode, 'outputs');
}

/** Checks the arguments immediately. The generator itself starts with the first `next()`. */
function batches<Result, Name extends string>(
  owner: string,
  model: PretrainedModel,
  method: 'embed' | 'embedQuery' | 'embedDocument' | 'encode',
  given: TextStream,
  { batchSize, signal: givenSignal, ...options }: StreamOptions & { signal?: SignalLike | undefined },
  run: (texts: string[], options: object) => Promise<Result>,
  name: Name,
): AsyncGenerator<{ start: number; texts: string[] } & Record<Name, Result>, void, undefined> {
  type Batch = { start: number; texts: string[] } & Record<Name, Result>;
  requireModel(owner, model, method);
  for (const name of ['textPairs', 'onProgress', 'edit'] satisfies WholeCall[])
    if ((options as Record<string, unknown>)[name] !== undefined)
      throw invalid(
        `${owner}.${name}`,
        'undefined in a stream, as it refers to all texts of a call',
        describe(options[name as never]),
      );
  const workers = Math.max(1, model.workers.count);
  const most = optional(size, 64 * workers)(batchSize, `${owner}.batchSize`);
  const signal = signalOption(givenSignal, `${owner}.signal`);
  const texts = iteratorOf(given);

  async function* generate(): AsyncGenerator<Batch, void, undefined> {
    const { stop, unlink } = linkedAbort(signal);
    let start = 0;
    let ended = false;
    let isWaiting = false;
    const readBatch = async (): Promise<[start: number, texts: string[]]> => {
      const batch: string[] = [];
      while (!ended && batch.length < most) {
        const next = texts.next();
        isWaiting = 'then' in next;
        const { done, value } = isWaiting
          ? await abortable(next as Promise<IteratorResult<unknown>>, stop.signal)
          : (next as IteratorResult<unknown>);
        isWaiting = false;
        if (done) ended = true;
        else batch.push(text(value, `texts[${start + batch.length}]`));
      }
      start += batch.length;
      return [start - batch.length, batch];
    };
    let reading: ReturnType<typeof readBatch> | undefined;
    /** Reads the next batch, after the batches before it, and computes it; null at the end. */
    const compute = (): Promise<Batch | null> => {
      reading = reading ? reading.then(readBatch) : readBatch();
      const computing = reading.then(async ([first, batch]) =>
        batch.length === 0
          ? null
          : ({ start: first, texts: batch, [name]: await run(batch, { ...options, signal: stop.signal }) } as Batch),
      );
      computing.catch(() => {}); // reported when the batch is awaited
      return computing;
    };
    try {
      // With several workers, compute two batches at a time, so that workers that finish early can begin the next
      // batch.
      const computing = workers > 1 ? [compute(), compute()] : [compute()];
      for (;;) {
        const batch = await computing.shift()!;
        if (batch === null) return;
        computing.push(compute());
        yield batch;
      }
    } finally {
      stop.abort();
      unlink();
      const closing = ended ? undefined : texts.return?.();
      // An iterator that waits for a text cannot be closed before the text arrives.
      if (isWaiting) void Promise.resolve(closing).catch(() => {});
      else await closing;
    }
  }
  return generate();
}

function iteratorOf(texts: unknown): Iterator<unknown> | AsyncIterator<unknown> {
  return guarded('texts', () => {
    if (typeof texts === 'object' && texts !== null) {
      const make =
        (texts as AsyncIterable<unknown>)[Symbol.asyncIterator] ?? (texts as Iterable<unknown>)[Symbol.iterator];
      if (typeof make === 'function') return make.call(texts);
    }
    throw invalid('texts', 'an array, or another iterable or async iterable of strings', describe(texts));
  });
}
