/** The batches of `trainEmbedding`. */
import { invalid } from '../../base/error.js';
import { groupBy } from '../../base/lists.js';
import { shuffled } from '../../base/random.js';
import { batchesWithin, type Contrast, isConstant } from '../contrast.js';
import type { Batch } from '../fit/batches.js';
import { epochOrder } from '../fit-data.js';
import { type EmbeddingData, groupsOf, type Rows } from './embedding-examples.js';

/** What the loss compares; null for triplets, which have explicit negatives. */
export function comparedIn({ texts, labels, isScored = false }: Rows): Contrast | null {
  if (labels) return { keys: labels, needsPair: !isScored };
  return texts[0]!.length > 2 ? null : { keys: groupsOf(texts) };
}

/**
 * Checks that the examples for training, and those for validation, can be compared.
 * @throws HeedError `INVALID_ARGUMENT` if they cannot, so that the loss would be constant
 */
export function requireComparable({ trained, held }: EmbeddingData): void {
  for (const [name, rows, purpose] of [
    [': examples', trained, 'train on'],
    ['.validation', held, 'validate with'],
  ] as const) {
    const contrast = rows && comparedIn(rows);
    if (!contrast || !isConstant([...rows.texts.keys()], contrast)) continue;
    const expected = !rows.labels
      ? 'at least two pairs that share no text'
      : rows.isScored
        ? 'at least two scores'
        : 'at least two texts of a label, and a third text';
    const got = `${rows.texts.length} without them to ${purpose}`;
    throw invalid(`trainEmbedding${name}`, expected, got, 'INVALID_ARGUMENT', {
      hint: 'A text is compared with the others of its batch',
    });
  }
}

/** The batches of one epoch. For validation, `epoch` is null, and the order is always the same. */
export function* rowBatches(rows: Rows, batchSize: number, seed: number, epoch: number | null): Generator<Batch> {
  const { texts, labels, isScored } = rows;
  const isLabeled = labels !== null && !isScored;
  const order = isLabeled
    ? labeledOrder(labels, seed, epoch ?? 0)
    : epoch === null
      ? [...texts.keys()]
      : epochOrder(texts.length, seed, epoch);
  for (const batch of batchesWithin(order, batchSize, comparedIn(rows)))
    yield { inputs: batch.map((i) => texts[i]!), ...(labels && { labels: batch.map((i) => labels[i]!) }) };
}

/**
 * The order of labeled texts in an epoch. Texts come in pairs of the same label, because a text without another one of
 * its label in the batch would only serve as a negative. The pairs of each label are spread evenly over the epoch.
 */
function labeledOrder(labels: readonly number[], seed: number, epoch: number): number[] {
  const byLabel = groupBy(shuffled(labels.length, seed, epoch), (i) => labels[i]!);
  const pairs = [...byLabel.values()].flatMap((indices) =>
    Array.from({ length: Math.ceil(indices.length / 2) }, (_, k) => ({
      indices: indices.slice(2 * k, 2 * k + 2),
      place: (2 * k + 1) / indices.length,
    })),
  );
  return pairs.sort((a, b) => a.place - b.place).flatMap(({ indices }) => indices);
}
