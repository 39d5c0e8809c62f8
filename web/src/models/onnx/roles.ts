/**
 * What the matrices of an encoder's layers are for, by where their products go in the graph. Names may be missing, and
 * nodes may be in any order in which each follows those that it reads.
 */
import type { ParameterRows } from '../families/family.js';
import { elementwise, type Graph, operands } from './graph.js';
import type { Node } from './messages.js';

/**
 * 'queries keys values': one matrix for all three. 'hidden': the first layer of the feed-forward block, whose outputs are
 * activated, in part or all. 'gated': the half of such a layer that is not activated, stored as a matrix of its own.
 */
export type Role = 'queries' | 'keys' | 'values' | 'queries keys values' | 'attended' | 'hidden' | 'gated' | 'output';

const PRODUCTS = new Set([
  ...['MatMul', 'FusedMatMul', 'MatMulInteger', 'MatMulIntegerToFloat', 'DynamicQuantizeMatMul', 'QLinearMatMul'],
  'Einsum',
]);
/** Operators of attention, whose first three inputs are queries, keys and values. */
const ATTENTIONS = new Set(['Attention', 'MultiHeadAttention', 'GroupQueryAttention']);
const ACTIVATIONS = new Set([
  ...['Relu', 'Gelu', 'FastGelu', 'BiasGelu', 'QuickGelu', 'Erf', 'Tanh', 'Sigmoid', 'Silu', 'Swish', 'HardSwish'],
  ...['Mish', 'Elu', 'Selu', 'LeakyRelu', 'Softplus', 'HardSigmoid', 'Celu'],
  ...['QLinearSigmoid', 'QLinearLeakyRelu'],
]);
const SOFTMAX = new Set(['Softmax', 'QLinearSoftmax']);

/**
 * The outputs of a node that depend on the values of its inputs: not those of Shape, and not the scale and zero point of a
 * quantization, which are factors of later products.
 */
const valuesOf = ({ op, outputs }: Node) =>
  op === 'Shape' || op === 'Size' ? [] : op === 'DynamicQuantizeLinear' ? outputs.slice(0, 1) : outputs;

/** Limit on the values that are followed from or to one matrix. In models, there are some dozens. */
const MAX_STEPS = 2000;

/** The roles of nodes that multiply by a matrix, as far as they are clear. */
export class Roles {
  readonly #isWeighted: (node: Node) => boolean;
  readonly #products = new Map<Node, 'scores' | 'attended' | null>();

  /** `weighted`: the nodes that multiply by a matrix. */
  constructor(
    readonly graph: Graph,
    weighted: ReadonlySet<Node>,
  ) {
    this.#isWeighted = (node) => weighted.has(node);
  }

  /** The role of a node's matrix; null if the graph does not tell. */
  of(node: Node): Role | null {
    const places = new Set<string>();
    let isActivated = false;
    let isFactor = false;
    const output = node.outputs[0];
    this.#follow(output, (next, value) => {
      const { op, inputs } = next;
      if (op === 'LayerNormalization' || op === 'SkipLayerNormalization') return false;
      if (ACTIVATIONS.has(op)) isActivated = true;
      if (ATTENTIONS.has(op)) {
        for (const [i, place] of ['queries', 'keys', 'values'].entries()) if (inputs[i] === value) places.add(place);
        return false;
      }
      if (this.#isProduct(next)) {
        const kind = this.#kindOf(next);
        const [first] = inputs;
        if (kind === 'scores') places.add(first === value ? 'queries' : 'keys');
        if (kind === 'attended' && first !== value) places.add('values');
        return false;
      }
      if (elementwise(next) === 'Mul') {
        const other = operands(next).find((input) => input !== value);
        isFactor ||= this.#comesFrom(other, (producer) => ACTIVATIONS.has(producer.op), output);
      }
      return !this.#isWeighted(next) && !ACTIVATIONS.has(op) && !SOFTMAX.has(op);
    });
    if (places.size === 1) return [...places][0] as Role;
    if (places.size === 3) return 'queries keys values';
    if (places.size > 0) return null;
    if (isActivated) return 'hidden';
    if (isFactor) return 'gated';
    const [input] = node.inputs;
    if (this.#comesFrom(input, (producer) => this.#isAttended(producer))) return 'attended';
    return this.#comesFrom(input, (producer) => ACTIVATIONS.has(producer.op)) ? 'output' : null;
  }

  /** Visits the nodes that read a value, and those behind them where `enter` returns true. */
  #follow(start: string | undefined, enter: (node: Node, value: string) => boolean): void {
    const values = start ? [start] : [];
    const seen = new Set<string>(values);
    for (let i = 0; i < values.length && i < MAX_STEPS; i++)
      for (const next of this.graph.consumers(values[i])) {
        if (!enter(next, values[i]!)) continue;
        for (const output of valuesOf(next)) {
          if (output === '' || seen.has(output)) continue;
          seen.add(output);
          values.push(output);
        }
      }
  }

  /** Whether a value is computed by such a node, without a matrix or a product in between. `except`: a value not to pass. */
  #comesFrom(value: string | undefined, accept: (node: Node) => boolean, except?: string): boolean {
    const values = value ? [value] : [];
    const seen = new Set<string>([...values, ...(except ? [except] : [])]);
    for (let i = 0; i < values.length && i < MAX_STEPS; i++) {
      const producer = this.graph.producer(values[i]);
      if (!producer || producer.op === 'Constant' || !valuesOf(producer).includes(values[i]!)) continue;
      if (accept(producer)) return true;
      if (this.#isWeighted(producer) || this.#isProduct(producer)) continue;
      for (const input of producer.inputs) {
        if (input === '' || seen.has(input)) continue;
        seen.add(input);
        values.push(input);
      }
    }
    return false;
  }

  #isProduct(node: Node): boolean {
    return PRODUCTS.has(node.op) && !this.#isWeighted(node);
  }

  #isAttended(node: Node): boolean {
    return ATTENTIONS.has(node.op) || (this.#isProduct(node) && this.#kindOf(node) === 'attended');
  }

  /** Whether a product of two computed values is that of queries and keys, or that of weights and values. */
  #kindOf(node: Node): 'scores' | 'attended' | null {
    let kind = this.#products.get(node);
    if (kind === undefined) {
      let isScores = false;
      const isWeights = this.#comesFrom(node.inputs[0], ({ op }) => SOFTMAX.has(op));
      if (!isWeights)
        this.#follow(node.outputs[0], (next) => {
          isScores ||= SOFTMAX.has(next.op);
          return !SOFTMAX.has(next.op) && !this.#isWeighted(next) && !this.#isProduct(next);
        });
      kind = isWeights ? 'attended' : isScores ? 'scores' : null;
      this.#products.set(node, kind);
    }
    return kind;
  }
}

const OF_PARAMETERS: Record<string, Role> = {
  'self_attn.q_proj_weight': 'queries',
  'self_attn.k_proj_weight': 'keys',
  'self_attn.v_proj_weight': 'values',
  'self_attn.out_proj.weight': 'attended',
  'linear2.weight': 'output',
};

/** Tensors of the state dict by the roles of their rows, each list in the order of the layers. */
export function rolesOf(names: readonly string[], rows: ReadonlyMap<string, ParameterRows>): Map<Role, string[]> {
  const firstRows = new Map<string, number[]>();
  for (const name of names) {
    const { parameter, firstRow } = rows.get(name)!;
    firstRows.set(
      parameter,
      [...(firstRows.get(parameter) ?? []), firstRow].sort((a, b) => a - b),
    );
  }
  const roleOf = ({ parameter, firstRow }: ParameterRows): Role => {
    const own = parameter.replace(/^layers\.\d+\./, '');
    const parts = firstRows.get(parameter)!;
    if (own === 'linear1.weight') return firstRow === 0 ? 'hidden' : 'gated';
    if (own !== 'self_attn.in_proj_weight') return OF_PARAMETERS[own]!;
    return parts.length === 1
      ? 'queries keys values'
      : (['queries', 'keys', 'values'] as const)[parts.indexOf(firstRow)]!;
  };
  const found = new Map<Role, string[]>();
  for (const name of names) {
    const role = roleOf(rows.get(name)!);
    const list = found.get(role) ?? [];
    list.push(name);
    found.set(role, list);
  }
  return found;
}
