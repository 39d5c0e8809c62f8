/** Adapts a pretrained encoder to `fit`: a module that maps texts to vectors, or to the output of a head on them. */
import { describe, guarded, invalid } from '../../base/error.js';
import type { Tensor, TensorInput } from '../../base/tensor.js';
import { allLayers } from '../../layers/composition/composite.js';
import type { Layer } from '../../layers/layer.js';
import type { StateDict } from '../../layers/state-dict.js';
import type { PretrainedModel } from '../../models/model.js';
import { isRegExp, matching, type NamePattern, type Parameter } from '../graph/parameters.js';
import type { RecordedModule } from '../graph/recorded-module.js';
import type { Tape } from '../graph/tape.js';
import { Module } from '../module.js';
import { isIn, isUpdate, type Lora, type LoraOptions } from '../trainable/lora.js';
import type { SentenceVectorOptions, TrainableModel } from '../trainable/trainable-model.js';

/** A text, or a pair of texts. */
export interface TextRow {
  readonly text: string;
  readonly pair?: string | undefined;
}

/** The encoder's parameters to train: all, those whose names match, or LoRA adapters. */
export type EncoderTraining = 'full' | NamePattern | { readonly lora: LoraOptions };

/** Reads which parameters to train. `or`: other valid values, for the message. */
export function readTraining(value: unknown, name: string, or = ''): EncoderTraining {
  const isPattern = (given: unknown) => typeof given === 'string' || isRegExp(given);
  const isList = Array.isArray(value) && value.length > 0 && value.every(isPattern);
  const hasLora = guarded(name, () => typeof (value as { lora?: unknown } | null)?.lora === 'object');
  if (isPattern(value) || isList || hasLora) return value as EncoderTraining;
  const expected = `${or}'full', names of parameters or { lora: { rank, alpha, targets } }`;
  throw invalid(name, expected, describe(value));
}

/**
 * @throws HeedError `UNSUPPORTED` for a model whose encoder cannot be trained. `or`: what else the caller can do, for the
 * message
 */
export function requireTrainable(call: string, model: PretrainedModel, or = ''): TrainableModel {
  if (model.config.dtype !== 'fp32')
    throw invalid(call, "a model of dtype 'fp32'", `'${model.config.dtype}'`, 'UNSUPPORTED', {
      hint: 'int8 weights cannot be trained',
    });
  if ('sentenceVectors' in model) return model as TrainableModel;
  throw invalid(call, 'a model loaded with `trainable: true`', 'a model loaded without it', 'UNSUPPORTED', {
    hint: `Load it with fromPretrained(source, { trainable: true })${or}`,
  });
}

/** Returns a function that restores the current choice of trained parameters. */
export function choiceOf(model: TrainableModel): () => void {
  const required = new Map(model.parameters().map((parameter) => [parameter.name, parameter.requiresGrad]));
  return () => {
    for (const parameter of model.parameters())
      if (required.has(parameter.name)) parameter.requiresGrad = required.get(parameter.name)!;
  };
}

export const isLora = (train: unknown): train is { readonly lora: LoraOptions } =>
  typeof train === 'object' && train !== null && 'lora' in train;

/** Whether `addLora` with these settings would make the model's existing adapters. The seed is ignored. */
const isSame = (lora: Lora, other: Lora): boolean =>
  (['rank', 'alpha', 'dropout'] as const).every((key) => lora[key] === other[key]) &&
  (['modules', 'modulesToSave'] as const).every(
    (key) => String([...lora[key]].sort()) === String([...other[key]].sort()),
  );

/**
 * Chooses LoRA adapters to train: new ones, or those that the model already has. The returned function restores the
 * earlier choice, except that added adapters remain chosen; they are removed only if training was not completed and
 * they are still zero.
 */
function prepareLora(call: string, model: TrainableModel, given: LoraOptions): (isDone: boolean) => void {
  const restore = choiceOf(model);
  const { lora } = model;
  if (!lora) {
    model.addLora(given);
    return (isDone) => {
      const updates = model.parameters().filter(({ name }) => name.endsWith('.lora_B.weight'));
      if (isDone || updates.some(({ value }) => value.data.some((entry) => entry !== 0))) return;
      model.mergeLora(); // the adapters are zero
      restore();
    };
  }
  const wanted = model.loraOf(given);
  if (!isSame(lora, wanted)) {
    const shown = ({ rank, alpha, dropout, targets, modulesToSave }: Lora) =>
      `rank ${rank}, alpha ${alpha}, dropout ${dropout}, modules ${[...targets, ...modulesToSave].join(', ')}`;
    const expected = `the settings of the model's LoRA adapters (${shown(lora)})`;
    throw invalid(`${call}.lora`, expected, shown(wanted), 'INVALID_ARGUMENT', { hint: MERGE });
  }
  const { modulesToSave } = lora;
  for (const parameter of model.parameters())
    parameter.requiresGrad = isUpdate(parameter.name) || isIn(parameter.name, modulesToSave);
  return restore;
}

const MERGE = 'To train other parameters, merge the LoRA adapters into the weights first: model.mergeLora()';

/**
 * Chooses the parameters to train. The returned function restores the earlier choice; its argument is whether training
 * was completed.
 */
export function prepare(call: string, model: TrainableModel, what: EncoderTraining): (isDone: boolean) => void {
  if (isLora(what)) return prepareLora(call, model, what.lora);
  const restore = choiceOf(model);
  if (model.lora)
    throw invalid(call, "{ lora } with the settings of the model's LoRA adapters", describe(what), 'INVALID_ARGUMENT', {
      hint: MERGE,
    });
  const patterns = what === 'full' ? '*' : what;
  const chosen = new Set(matching(call, model.parameters(), patterns).map(({ name }) => name));
  for (const parameter of model.parameters()) parameter.requiresGrad = chosen.has(parameter.name);
  return restore;
}

/**
 * Parameters in two groups for an optimizer: matrices, and biases and norms, which have no weight decay, as in
 * transformers' Trainer.
 */
export function decayGroups(params: readonly Parameter[], lr: number, weightDecay: number) {
  const matrices = params.filter(({ shape }) => shape.length > 1);
  const others = params.filter(({ shape }) => shape.length <= 1);
  return [
    { params: matrices, lr, weightDecay },
    { params: others, lr, weightDecay: 0 },
  ].filter(({ params }) => params.length > 0);
}

/** The module that `fit` trains. Its state is only the parameters that are trained. */
export class EncoderModule extends Module {
  readonly model: TrainableModel;
  readonly head: (Module & { forward(x: TensorInput): Tensor }) | null;
  protected readonly tape: Tape;
  readonly #options: SentenceVectorOptions;

  constructor(tape: Tape, model: TrainableModel, options: SentenceVectorOptions, head: EncoderModule['head'] = null) {
    super(tape);
    this.tape = tape;
    this.model = model;
    this.head = head;
    this.#options = options;
  }

  forward(rows: readonly TextRow[]): Tensor {
    const vectors = this.vectors(rows);
    return this.head ? this.head.forward(vectors) : vectors;
  }

  vectors(rows: readonly TextRow[]): Tensor {
    const texts = rows.map(({ text }) => text);
    const textPairs = rows[0]?.pair === undefined ? undefined : rows.map(({ pair }) => pair!);
    return this.model.sentenceVectors(texts, { ...this.#options, ...(textPairs && { textPairs }) });
  }

  override train(): this {
    this.model.train();
    return super.train();
  }

  override eval(): this {
    this.model.eval();
    return super.eval();
  }

  override parameters(): Parameter[] {
    return [...this.model.parameters(), ...super.parameters()];
  }

  /** The parameters that are trained. */
  trained(): Parameter[] {
    return this.parameters().filter(({ requiresGrad }) => requiresGrad);
  }

  override stateDict(): StateDict {
    return Object.fromEntries(this.trained().map(({ name, value }) => [name, value]));
  }

  override loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    for (const parameter of this.trained()) parameter.write(state[parameter.name] as Tensor);
    return this;
  }

  /**
   * The raw objects that have the parameters, in place of layers for `fit` and checkpoints, with the prefixes of their
   * parameters' names.
   */
  override [allLayers](): [Layer, string][] {
    const parts = new Map<RecordedModule, string>();
    for (const { state, name, index } of this.model.parameters())
      if (!parts.has(state)) parts.set(state, name.slice(0, name.length - state.parameters()[index]!.name.length));
    const encoder = [...parts].map(([state, prefix]): [Layer, string] => {
      const part = {
        name: state.name,
        raw: state,
        training: false,
        disposed: this.model.disposed,
        train: () => {},
        eval: () => {},
      };
      return [part as unknown as Layer, prefix];
    });
    return [...encoder, ...super[allLayers]()];
  }

  /** Saves the state of all dropouts. The returned function restores it, so that the same masks are sampled again. */
  draws(): () => void {
    const modules = this[allLayers]().map(([{ raw }]) => this.tape.stateOf(raw));
    const saved = modules.map((module) => module.dropoutState());
    return () => {
      for (const [i, module] of modules.entries()) module.setDropoutState(saved[i]!);
    };
  }
}
