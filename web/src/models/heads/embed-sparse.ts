/** Sparse vectors of a model's texts. */
import type { OptionsOf } from '../call-options.js';
import { outputWidth } from '../families/family.js';
import type { SentenceConfig } from '../families/sentence-config.js';
import { promptOf } from '../families/sentence-transformers.js';
import { sparseIn } from '../families/steps.js';
import { countTexts, type ModelInput, type Row, rowsOf } from '../input.js';
import { promptText, withPrompt } from '../prompts.js';
import { type PieceOptions, runRows } from '../run.js';
import type { RunnableModel } from '../runnable-model.js';
import { logitsOf } from './logits.js';
import { skippedTokens, stepOptions, vectorForm } from './pooling.js';
import type { SparseVector } from './sparse.js';
import { largestEntries, SparsePooling } from './sparse-pooling.js';
import type { Head } from './task-heads.js';

/** Implements `PretrainedModel.embedSparse`, for the model of the texts' route. */
export async function embedSparse(
  model: RunnableModel,
  given: ModelInput,
  { promptName, ...call }: OptionsOf<'embedSparse'>,
  pieceOptions: PieceOptions,
): Promise<SparseVector[]> {
  const { steps } = model.raw;
  const { encode = null } = steps.sparse ?? {};
  const head = encode ? null : model.head('fill-mask');
  const { prompts } = model.config;
  const prompt = promptName ? promptText(prompts, withPrompt(prompts, promptName, {})) : promptOf(model.sentence);
  const limit = maxActiveDims(model.sentence);
  const vectors: SparseVector[] = [];
  const rowOptions = { ...call, prompt, task: promptName };
  const rows = await model.withSites('embedSparse', call, rowsOf(given, rowOptions, model.context), pieceOptions);
  const finish = (found: readonly SparseVector[], piece: readonly Row[]) => {
    for (const [n, { ids }] of piece.entries())
      vectors.push(largestEntries(steps.sparse?.finish(found[n]!, ids) ?? found[n]!, limit));
  };
  const form = vectorForm('embedSparse', model.sentence, model.encoderConfig);
  const skipped = skippedTokens(given, prompt, call, model.sentence, model.context);
  if (steps.readsStates) pieceOptions.small = true;
  await runRows(model.runContext, rows, countTexts(given), call, pieceOptions, (piece) => {
    if (head) return { use: (encoding) => finish(splade(model, head, encoding.hidden(), piece), piece) };
    return steps.hooks(piece, stepOptions(form, skipped, false), (values) =>
      finish(
        encode!(values, () => steps.run(values)),
        piece,
      ),
    );
  });
  return vectors;
}

/** The sparse vectors of the hidden states of a piece of texts. */
function splade(model: RunnableModel, head: Head, hidden: Float32Array, piece: readonly Row[]): SparseVector[] {
  const { vocabSize } = model.encoderConfig;
  const embedDim = outputWidth(model.encoderConfig);
  let at = 0;
  return piece.map(({ ids }) => {
    const pooling = new SparsePooling(vocabSize, sparseIn(model.sentence.steps));
    const rows = hidden.subarray(at, at + ids.length * embedDim);
    at += rows.length;
    pooling.addRows(rows, embedDim, head.isTied ? head.bias : undefined, (few) => logitsOf(model, head, few));
    return pooling.vector();
  });
}

/** The number of entries of a sparse vector that the folder keeps. */
function maxActiveDims({ general }: SentenceConfig): number {
  const key = 'max_active_dims';
  return general?.get(key) === undefined ? Infinity : general.count(key, undefined, 1);
}
