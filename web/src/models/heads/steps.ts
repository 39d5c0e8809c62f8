/**
 * Runs the steps of a sentence-transformers folder on the encoder's hidden states. other-steps.ts, imported on demand,
 * has all but pooling and normalization. Notation: N texts, T tokens of all texts together, E width of the encoder, D of
 * a value.
 */

import { importing, invalid, invalidFile } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import type { RawLayers, RawRows, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { outputWidth } from '../families/family.js';
import {
  finalNormalize,
  givesLogitScore,
  isSparse,
  type ModelStep,
  type Step,
  scoreLayers,
  shapesOf,
  TOKENS,
  VECTORS,
  vectorSteps,
} from '../families/steps.js';
import type { Row } from '../input.js';
import type { LoadedModel } from '../loaded-model.js';
import { normalized } from '../quantized.js';
import type { PieceHooks } from '../run.js';
import { poolRows, poolTokens } from './pooling.js';
import type { SparseSteps } from './sparse-steps.js';
import { type LoadedStep, type StepOptions, Values } from './step-values.js';
import type { Chain, Head } from './task-heads.js';

const others = () => importing('other-steps', () => import('./other-steps.js'));

/** The steps of a model that give its vectors and rows of tokens. */
export class Steps {
  readonly #all: readonly Step[];
  readonly #states: readonly number[];
  /** Whether only the encoder's pooling reads the hidden states, so that a GPU can pool. */
  readonly #onlyPools: boolean;

  /** `numLayers`: of the encoder. */
  constructor(
    readonly loaded: readonly LoadedStep[],
    numLayers: number,
    /** The steps from dense vectors to sparse ones, besides SpladePooling; null: none. */
    readonly sparse: SparseSteps | null = null,
  ) {
    this.#all = loaded.map(({ step }) => step);
    this.#states = loaded.flatMap(({ step, states }) => states ?? stateOf(step, numLayers) ?? []);
    this.#onlyPools = poolsEncoder(this.#all);
  }

  get layers(): RawTensorLayer[] {
    return this.loaded.flatMap(({ layers }) => layers);
  }

  /** Runs the first `count` steps, and returns the value `name`. */
  run(values: Values, name = VECTORS, count = this.loaded.length): RawTensor {
    const left = values.options.unnormalized ? finalNormalize(this.#all) : -1;
    for (const [i, step] of this.loaded.slice(0, count).entries()) if (i !== left) step.run(values);
    return values.get(name);
  }

  /** The hooks of a piece of texts. `use` runs the steps. */
  hooks(piece: readonly Row[], options: StepOptions, use: (values: Values) => void): PieceHooks {
    const states = new Map<number, Float32Array>();
    const { pooling: modes, skipped } = options;
    return {
      ...(this.#onlyPools && !skipsClass(options) && { pooling: { modes, skipped } }),
      ...(this.#states.length > 0 && {
        returnStates: true,
        onLayer: (layer: number, encoding: RawRows) => {
          if (this.#states.includes(layer + 1)) states.set(layer + 1, encoding.hidden());
        },
      }),
      use: (encoding) => use(new Values(encoding, piece, options, states)),
    };
  }

  /** Runs the steps that give rows of tokens, and returns them: [T, D]. */
  tokens(values: Values): RawTensor {
    values.set(TOKENS, values.tokens());
    for (const { step, run } of this.loaded)
      if (step.kind !== 'model' && step.input === TOKENS && step.output === TOKENS) run(values);
    return values.get(TOKENS);
  }

  /** Whether the steps read hidden states besides the last. */
  get readsStates(): boolean {
    return this.#states.length > 0;
  }

  delete(): void {
    for (const layer of this.layers) layer.delete();
    this.sparse?.delete();
  }
}

/** Whether a pooling takes the first token after the prompt; the encoder's own takes the first of all. */
const skipsClass = ({ pooling, skipped }: StepOptions) => skipped > 0 && pooling.includes('cls');

/** Whether the encoder's pooling is the only step that reads rows of tokens. */
export function poolsEncoder(steps: readonly Step[]): boolean {
  const [model, pooling, ...others] = steps;
  return (
    model?.kind === 'model' &&
    model.from[0] === 'last_hidden_state' &&
    pooling?.kind === 'pooling' &&
    pooling.input === model.output &&
    others.every(({ input, output }) => input !== model.output && output !== model.output)
  );
}

/** The number of the layer whose output is used, if it is not the last; 0: the embeddings. */
export function stateOf(step: Step, numLayers: number): number | null {
  if (step.kind !== 'model' || step.from[0] !== 'hidden_states') return null;
  const index = step.from[1] as number;
  const state = index < 0 ? index + numLayers + 1 : index;
  if (state >= 0 && state <= numLayers) return state === numLayers ? null : state;
  throw invalidFile('method_output_name', `hidden states from 0 to ${numLayers}, or from -1 backwards`, `${index}`);
}

/** Loads the steps of `embed`, and the head that gives a reranker's scores, if the folder has modules for them. */
export async function loadSteps(
  calls: RawLayers,
  loaded: LoadedModel,
  pooler: () => Chain | null,
  signal: SignalLike | undefined,
): Promise<[Steps, Head | null]> {
  const { sentence, config } = loaded;
  const all = vectorSteps(sentence.steps);
  shapesOf(sentence.steps, outputWidth(config));
  const made: LoadedStep[] = [];
  const isPooled = poolsEncoder(all);
  try {
    for (const step of all) made.push(await loadStep(step, calls, loaded, isPooled, pooler, signal));
    const sparse = await loadSparse(calls, loaded, signal);
    const steps = new Steps(made, config.numLayers, sparse);
    return [steps, await loadScores(calls, loaded, signal)];
  } catch (error) {
    for (const { layers } of made) for (const layer of layers) layer.delete();
    throw error;
  }
}

/** Loads the modules of `embedSparse` besides SpladePooling. */
async function loadSparse(
  calls: RawLayers,
  loaded: LoadedModel,
  signal: SignalLike | undefined,
): Promise<SparseSteps | null> {
  const { steps } = loaded.sentence;
  if (!steps.some((step) => isSparse(step) && step.kind === 'other')) return null;
  const { loadSparseSteps } = await importing('sparse-steps', () => import('./sparse-steps.js'));
  return loadSparseSteps(calls, loaded, signal);
}

/** Loads what gives scores: layers, or the logits of a causal model. */
async function loadScores(calls: RawLayers, loaded: LoadedModel, signal: SignalLike | undefined): Promise<Head | null> {
  const { sentence, settings } = loaded;
  if (givesLogitScore(sentence, settings.get('architectures'))) {
    const { logitScore } = await importing('logit-score', () => import('./logit-score.js'));
    return logitScore(calls, loaded);
  }
  if (scoreLayers(sentence.steps).length === 0) return null;
  const { layersHead } = await others();
  return layersHead(calls, loaded, signal);
}

async function loadStep(
  step: Step,
  calls: RawLayers,
  loaded: LoadedModel,
  isPooled: boolean,
  pooler: () => Chain | null,
  signal: SignalLike | undefined,
): Promise<LoadedStep> {
  const { input, output } = step;
  const run = (body: LoadedStep['run']): LoadedStep => ({ step, layers: [], run: body });
  if (step.kind === 'model') return run(isPooled ? () => {} : modelRun(step, loaded, pooler));
  if (step.kind === 'pooling')
    return run((values) => {
      const { pooling, skipped } = values.options;
      const pooled =
        isPooled && !skipsClass(values.options)
          ? poolRows(values.encoding, values.piece.length, outputWidth(loaded.config), pooling, skipped)
          : poolTokens(isPooled ? values.tokens() : values.get(input), values.piece, pooling, skipped);
      values.set(output, pooled);
    });
  if (step.kind === 'normalize') return run((values) => values.set(output, normalizedRows(values.get(input))));
  const { otherStep } = await others();
  return otherStep(step, calls, loaded, signal);
}

/** Gives the output of the model that the folder names. */
function modelRun(
  step: ModelStep,
  { config, family, type, heads }: LoadedModel,
  pooler: () => Chain | null,
): LoadedStep['run'] {
  const { output, from, method } = step;
  if (method !== 'forward' && !family.images)
    throw invalid('modality_config.text.method', "'forward'", `'${method}' for '${type}'`, 'UNSUPPORTED');
  if (from[0] === 'logits')
    throw invalid('modality_config.text.method_output_name', 'hidden states for vectors', "'logits'", 'UNSUPPORTED');
  if (from[0] === 'pooler_output') {
    if (!family.pooler || !heads.has(`${family.pooler}.weight`)) {
      const expected = `a checkpoint of '${type}' with a pooler, whose output the folder's vectors are`;
      throw invalid('modality_config.text.method_output_name', expected, 'none', 'UNSUPPORTED');
    }
    return (values) => {
      const first = poolTokens(values.tokens(), values.piece, ['cls'], 0);
      values.set(output, pooler()!.forward(first));
    };
  }
  const state = stateOf(step, config.numLayers);
  return (values) => values.set(output, values.tokens(state === null ? undefined : values.states.get(state)));
}

/** Scales each row to unit norm. */
export function normalizedRows({ data, shape }: RawTensor): RawTensor {
  const width = shape.at(-1)!;
  const out = new Float32Array(data.length);
  for (let at = 0; at < data.length; at += width) out.set(normalized(data.subarray(at, at + width)), at);
  return { data: out, shape };
}
