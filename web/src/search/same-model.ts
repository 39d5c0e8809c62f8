/**
 * Checks that an index is opened with the model that made it. Its file has `probe`, F32 [2,E]: the model's vectors of a
 * fixed text as a document and as a query, in the model's full width ([1,E] if they are equal). The metadata have
 * `probe_bits` and, if known, `document_prompt` and `query_prompt`.
 */
import { describe, formatShape, invalidFile } from '../base/error.js';
import { tensorOf } from '../io/safetensors.js';
import { MIN_COSINES } from '../models/probe.js';
import { dot } from '../models/quantized.js';
import { type Probe, ROLES } from './index-model.js';
import type { Similarity } from './stored-vectors.js';

const REMEDY = 'Open the index with the model that it was made with, or build it again with this model';

/** Reads the probe of a file; null if it has none, as in files written before 0.3.0. */
export function readProbe(
  tensor: { dtype: string; shape: number[]; bytes: Uint8Array } | undefined,
  metadata: Record<string, string>,
  file: string,
): Probe | null {
  if (!tensor) return null;
  const { dtype, shape, bytes } = tensor;
  const [count, width = 0] = shape;
  const data = dtype === 'F32' ? new Float32Array(bytes.slice().buffer) : new Float32Array();
  if (
    shape.length !== 2 ||
    !(count === 1 || count === 2) ||
    width === 0 ||
    data.length !== count * width ||
    !data.every(Number.isFinite)
  )
    throw invalidFile(
      tensorOf(file, 'probe'),
      'one or two vectors, F32 [1, E] or [2, E], of finite numbers',
      `${dtype} ${formatShape(shape)}`,
    );
  const { probe_bits: bits = '16', document_prompt: document, query_prompt: query } = metadata;
  if (!Object.hasOwn(MIN_COSINES, bits))
    throw invalidFile(file, "16, 8 or 4 in the metadata's probe_bits", describe(bits));
  return {
    document: data.slice(0, width),
    query: data.slice(-width),
    prompts: document === undefined || query === undefined ? null : { document, query },
    bits: Number(bits),
  };
}

/** Rejects a model other than that of the index. With dot products, the norms of the vectors matter, too. */
export function requireSameModel(file: string, saved: Probe, own: Probe, similarity: Similarity): void {
  const refuse = (expected: string, got: string) => {
    throw invalidFile(file, `${expected}, as the index was made with`, got, REMEDY);
  };
  const width = saved.document.length;
  if (own.document.length !== width)
    refuse(`a model with vectors of ${width} entries`, `${own.document.length} entries`);
  const least = MIN_COSINES[Math.min(saved.bits, own.bits)]!;
  for (const role of ROLES) {
    const [expected, got] = [saved, own].map(({ prompts }) => prompts?.[role]);
    if (expected !== undefined && got !== undefined && expected !== got)
      refuse(`the prompt ${describe(expected)} for each ${role}`, describe(got));
    const [a, b] = [saved[role], own[role]];
    const [aa, bb, ab] = [dot(a, 0, a, 0, width), dot(b, 0, b, 0, width), dot(a, 0, b, 0, width)];
    // For dot products, a measure that is less than the cosine if the norms differ.
    const closeness = similarity === 'dot' ? (2 * ab) / (aa + bb) : ab / Math.sqrt(aa * bb);
    if (aa + bb > 0 && !(closeness >= least))
      refuse(
        'the model, pooling, Dense layer and prompts',
        `different ones: vectors of the same ${role} have a ${similarity === 'dot' ? 'similarity' : 'cosine'} of ${(closeness || 0).toFixed(4)}, less than ${least}`,
      );
  }
}
