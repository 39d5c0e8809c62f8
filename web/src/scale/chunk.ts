/** Embeds one chunk. Each of its lines becomes one row of its part. */
import { append } from '../base/lists.js';
import { HeedError, type PretrainedModel } from '../index.js';
import { batches, embedTexts } from '../node/index.js';
import type { VectorTable } from './database.js';
import { type Line, linesOf } from './lines.js';
import type { Manifest } from './manifest.js';
import { PartWriter, type Row, storedOf } from './part.js';

/** The result of embedding a chunk. */
export interface ChunkDone {
  rows: number;
  /** Number of rows without a vector. */
  errors: number;
}

export interface ChunkTarget {
  folder: string;
  /** Suffix of temporary file names, unique among all processes and threads. */
  suffix: string;
  table: VectorTable | null;
  onProgress: (rows: number) => void;
}

/**
 * Embeds a chunk and publishes its part.
 *
 * @throws HeedError INVALID_FILE if the corpus changes during the call or the part cannot be written
 */
export async function embedChunk(
  model: PretrainedModel,
  manifest: Manifest,
  number: number,
  { folder, suffix, table, onProgress }: ChunkTarget,
): Promise<ChunkDone> {
  const chunk = manifest.chunks[number]!;
  const writer = new PartWriter(folder, manifest, number, suffix);
  const done = { rows: 0, errors: 0 };
  try {
    await table?.begin();
    for await (const lines of batches(linesOf(manifest, number), sizeOf)) {
      const rows = await rowsOf(model, manifest, chunk.file, lines);
      writer.write(rows);
      await table?.insert(rows);
      done.rows += rows.length;
      done.errors += rows.filter(({ error }) => error !== undefined).length;
      onProgress(rows.length);
    }
    // Commit before publishing, because an existing part marks its chunk as done.
    await table?.commit(number, done.rows);
    writer.publish();
    return done;
  } catch (error) {
    await table?.rollback();
    throw error;
  } finally {
    writer.discard();
  }
}

/** Long texts count as several, so that a batch's memory is bounded. */
const sizeOf = ({ text = '' }: Line) => 1 + Math.floor(text.length / 4096);

async function rowsOf(model: PretrainedModel, manifest: Manifest, file: string, lines: Line[]): Promise<Row[]> {
  const texts = lines.flatMap(({ text }) => text ?? []);
  const vectors = await vectorsOf(model, texts, manifest);
  let next = 0;
  return lines.map(({ text, ...line }) => {
    if (text === undefined) return { file, ...line };
    const vector = vectors[next++]!;
    if (typeof vector === 'string') return { file, ...line, error: vector };
    if (!vector.every(Number.isFinite))
      return { file, ...line, error: 'expected a finite vector, got NaN or infinity' };
    return { file, ...line, vector: storedOf(vector, manifest.output) };
  });
}

/** The vector of each text, or the reason why it has none. A vector does not depend on the other texts of the call. */
async function vectorsOf(
  model: PretrainedModel,
  texts: string[],
  manifest: Manifest,
): Promise<(Float32Array | string)[]> {
  if (texts.length === 0) return [];
  try {
    const { data } = await embedTexts(model, texts, manifest.embedding);
    return texts.map((_, n) => data.subarray(n * manifest.width, (n + 1) * manifest.width));
  } catch (error) {
    if (!(error instanceof HeedError) || !['INVALID_ARGUMENT', 'TOO_LONG'].includes(error.code)) throw error;
    if (texts.length === 1) return [error.message];
    const vectors: (Float32Array | string)[] = [];
    for (const text of texts) append(vectors, await vectorsOf(model, [text], manifest));
    return vectors;
  }
}
