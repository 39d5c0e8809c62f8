/** Operations with gradients, and custom functions in JavaScript. */
import { calling, describe, formatShape, guarded, HeedError, invalid } from '../../base/error.js';
import { callback, readOptions, type Schema } from '../../base/options.js';
import { readTensor, Tensor, type TensorInput, type TensorLike } from '../../base/tensor.js';
import type { RawTensor } from '../../base/wasm/core.js';
import { makeOperations } from '../../layers/composition/make-operations.js';
import type { Operand, Operations as PlainOperations } from '../../layers/composition/operations.js';
import { type Loss, toResult } from './loss.js';
import { gradientsOf } from './operation-gradients.js';
import type { Recording } from './recording.js';
import type { Tape } from './tape.js';

/** A custom function in JavaScript, with its gradient. */
export interface CustomFunction<Inputs extends readonly Tensor[] = Tensor[]> {
  /** Computes the output from copies of the inputs. */
  forward(...inputs: Inputs): TensorInput;
  /**
   * Computes the gradients of sum(cotangent * output) with respect to the inputs: an array with one entry per input, in
   * the input's shape; null means zeros. A function of one input may return the tensor itself. Runs during a backward
   * pass, and must not train.
   */
  backward(
    cotangent: Tensor,
    context: { inputs: Inputs; output: Tensor },
  ): TensorLike | readonly (TensorInput | null)[];
}

type Binary = 'add' | 'subtract' | 'multiply' | 'divide';
type Unary = 'exp' | 'log' | 'abs' | 'sqrt' | 'relu' | 'tanh' | 'sigmoid';

/** Operations whose results are losses. */
type LossResults = { [Name in Binary]: (a: Loss, b: Loss | number) => Loss } & {
  [Name in Unary]: (x: Loss | number) => Loss;
} & { [Name in 'sum' | 'max']: (x: Operand) => Loss };

/** The types of operations on losses, and custom functions. */
export interface LossOperations extends LossResults {
  /**
   * Makes a differentiable function of tensors from JavaScript functions that compute its output and its gradient.
   *
   * @example
   * const square = heed.custom({
   *   forward: (x) => ({ data: x.data.map((v) => v * v), shape: x.shape }),
   *   backward: (dy, { inputs: [x] }) => ({ data: dy.data.map((d, i) => 2 * d * x.data[i]), shape: x.shape }),
   * });
   * const y = square(layer.forward(x));
   */
  custom<Inputs extends readonly Tensor[]>(
    definition: CustomFunction<Inputs>,
  ): (...inputs: { [K in keyof Inputs]: TensorInput }) => Tensor;
}

const customSchema = {
  forward: callback<CustomFunction['forward']>,
  backward: callback<CustomFunction['backward']>,
} satisfies Schema<CustomFunction>;

/** The operations of heed/train: those of heed, whose results without axes are losses, and `custom`. */
export type Operations = LossOperations & PlainOperations;

/** The operations of one runtime. */
export function operationsOf(tape: Tape): Operations {
  const { core } = tape;
  const computed = (name: string, compute: (call: Recording) => RawTensor): Tensor =>
    calling(name, () => tape.record(null, (call) => toResult(tape, compute(call))));

  const operations = makeOperations({ calls: core }, (one) => {
    const { name, inputs, result } = one;
    const given = Object.entries(inputs);
    if (!tape.records(null, Object.values(inputs))) {
      tape.requireAlive();
      return toResult(tape, result);
    }
    const gradients = gradientsOf(core, one);
    return computed(name, (call) =>
      call.external(
        result,
        given.map(([argument, tensor]) => call.input(argument, tensor)),
        gradients,
      ),
    );
  });

  return {
    ...(operations as Operations),
    custom(definition) {
      const { forward, backward } = readOptions('custom', customSchema, definition);
      if (!forward || !backward) throw invalid('custom', 'functions `forward` and `backward`', describe(definition));
      return (...given) => {
        const inputs = given.map((one, i) => readTensor(`custom: inputs[${i}]`, one));
        const constants = inputs.map(({ data, shape }) => new Tensor(data.slice(), shape));
        const output = readTensor('custom: the result of forward', forward(...constants));
        const context = { inputs: constants, output: new Tensor(output.data.slice(), output.shape) };
        return computed('custom', (call) => {
          const variables = inputs.map((one, i) => call.input(`inputs[${i}]`, one));
          const external = (gradient: Float32Array) =>
            readGradients(backward(new Tensor(gradient, output.shape), context), inputs);
          return call.external(output, variables, external);
        });
      };
    },
  };
}

/** Reads what a custom function's `backward` returned. */
function readGradients(given: unknown, inputs: readonly RawTensor[]): (RawTensor | null)[] {
  const name = 'custom: the result of backward';
  return guarded(name, () => {
    const list: unknown[] = Array.isArray(given) ? given : [given];
    if (list.length !== inputs.length) throw invalid(name, `${inputs.length} gradients`, `${list.length}`);
    return list.map((gradient, i) => {
      if (gradient === null || gradient === undefined) return null;
      const read = readTensor(`${name}[${i}]`, gradient);
      const { shape } = inputs[i]!;
      if (formatShape(read.shape) === formatShape(shape)) return read;
      throw new HeedError(
        'SHAPE_MISMATCH',
        `${name}[${i}]: expected the shape of the input, ${formatShape(shape)}, got ${formatShape(read.shape)}`,
      );
    });
  });
}
