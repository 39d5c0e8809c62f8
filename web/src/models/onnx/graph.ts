/**
 * Finds the weights that a graph's operators use. A weight is followed back through operators that do not change its
 * values, and through dequantization, to the tensors in which it is stored.
 */
import { damaged, type Node } from './messages.js';

/**
 * How a weight is computed from stored tensors. W has PyTorch's layout, [out, in] for a linear layer; before the steps
 * of `Stored`.
 */
export type Form =
  /** The tensor itself. */
  | { kind: 'plain' }
  /**
   * (q - z) s. Scales and zero points: scalars, one per entry of `axis`, or, with `block`, one for `block` entries of
   * `axis`.
   */
  | { kind: 'linear'; axis: number; block: number }
  /** MatMulNBits and GatherBlockQuantized: rows of `bits`-bit integers, low bits first, with scales for `block` columns. */
  | { kind: 'blocks'; bits: number; block: number; rows: number; columns: number; isTable: boolean }
  /** MatMulBnb4: 4-bit indices over the whole array, high half first. `type`: 1 for NF4, 0 for FP4. */
  | { kind: 'bnb4'; type: number; block: number; rows: number; columns: number };

/** The names of the tensors in which a weight is stored, and what turns them into the weight. */
export interface Stored {
  form: Form;
  tensor: string;
  scale: string | null;
  zero: string | null;
  /** A scalar by which the scales are multiplied. */
  factor: string | null;
  /** Whether the stored matrix is W transposed. */
  transposed: boolean;
  /** The weight is part `index` of `of` equal parts of W's rows, as of merged queries, keys and values. */
  part: { index: number; of: number } | null;
  /** A number that is subtracted from every value: exporters store some norms' weights plus 1. */
  offset: number;
}

/** A weight as an operator uses it. */
export interface Use {
  node: Node;
  /** What the operator does with the weight: the last part of its name in a state dict. */
  role: 'weight' | 'bias' | 'probe';
  /** Whether the weight is a matrix that is multiplied. */
  isMatrix: boolean;
  stored: Stored;
  /** The names of the values between the stored tensor and the operator, the operator's input first. */
  names: string[];
}

/** Whether an operator belongs to ONNX or to onnxruntime, whose operators do not change the weights that they read. */
export const isKnown = ({ domain }: Node) => domain === '' || domain === 'com.microsoft';

/**
 * The operators with weights: the inputs with the weight, the bias, the scale and the zero point, -1 for none, and the
 * form of the weight.
 */
const OPERATORS: Record<string, [weight: number, bias: number, scale?: number, zero?: number, form?: Form['kind']]> = {
  MatMul: [1, -1],
  FusedMatMul: [1, -1],
  Gemm: [1, 2],
  FusedGemm: [1, 2],
  Conv: [1, 2],
  FusedConv: [1, 2],
  LayerNormalization: [1, 2],
  Gather: [0, -1],
  MatMulInteger: [1, -1, -1, 3, 'linear'],
  ConvInteger: [1, -1, -1, 3, 'linear'],
  QLinearMatMul: [3, -1, 4, 5, 'linear'],
  QGemm: [3, 6, 4, 5, 'linear'],
  QLinearConv: [3, 8, 4, 5, 'linear'],
  DynamicQuantizeMatMul: [1, 4, 2, 3, 'linear'],
  MatMulIntegerToFloat: [1, 6, 3, 5, 'linear'],
  MatMulNBits: [1, 5, 2, 3, 'blocks'],
  GatherBlockQuantized: [0, -1, 2, 3, 'blocks'],
  MatMulBnb4: [1, -1, 2, -1, 'bnb4'],
};

/** Operators that pass a tensor on unchanged or as another view of its values. */
const PASSING = new Set(['Identity', 'Cast', 'Squeeze', 'Unsqueeze']);

/** Limit on chains of operators before a weight. */
const MAX_DEPTH = 32;

/** Limit on the operators behind a value that are searched for a bias or a scale. In models, there are at most five. */
const MAX_CONSUMERS = 64;

/**
 * The two operands of an Add or a Mul; a file could list more inputs. onnxruntime's operators for quantized values have
 * a scale and a zero point after each operand.
 */
export const operands = ({ op, inputs }: Node) =>
  op.startsWith('QLinear') ? [inputs[0], inputs[3]] : inputs.slice(0, 2);

/** 'Add' or 'Mul' for an elementwise sum or product, also of quantized values; null for other operators. */
export const elementwise = ({ op }: Node) => /^(?:QLinear)?(Add|Mul)$/.exec(op)?.[1] ?? null;

/** The operand that is not `value`. */
const otherOperand = (node: Node, value: string | undefined) => operands(node).find((input) => input !== value);

export class Graph {
  readonly nodes: Node[] = [];
  readonly #producers = new Map<string, Node>();
  readonly #consumers = new Map<string, Node[]>();

  constructor(readonly file: string) {}

  /** @throws HeedError INVALID_FILE if another node has the same output, which ONNX does not allow */
  add(node: Node): void {
    this.nodes.push(node);
    for (const output of node.outputs) {
      if (output === '') continue;
      if (this.#producers.has(output)) throw damaged(this.file, `two nodes with the output '${output.slice(0, 80)}'`);
      this.#producers.set(output, node);
    }
    for (const input of new Set(node.inputs)) {
      const consumers = this.#consumers.get(input);
      if (consumers) consumers.push(node);
      else this.#consumers.set(input, [node]);
    }
  }

  producer(value: string | undefined): Node | undefined {
    return this.#producers.get(value ?? '');
  }

  consumers(value: string | undefined): readonly Node[] {
    return this.#consumers.get(value ?? '') ?? [];
  }

  /** Whether a value may be an initializer: no node computes it, or a Constant. */
  isLeaf(value: string | undefined): boolean {
    if (!value) return false;
    const producer = this.producer(value);
    return !producer || producer.op === 'Constant';
  }

  /**
   * Follows a value back to the stored tensors; null if it is computed from others. `names` receives the names of the
   * values on the way.
   */
  resolve(value: string | undefined, names: string[] = [], depth = 0): Stored | null {
    if (!value || depth > MAX_DEPTH) return null;
    names.push(value);
    if (this.isLeaf(value)) return plain(value);
    const node = this.producer(value)!;
    const [input, scale, zero] = node.inputs;
    if (!isKnown(node)) return null;
    if (PASSING.has(node.op)) return this.resolve(input, names, depth + 1);
    if (node.op === 'Transpose') {
      const stored = this.resolve(input, names, depth + 1);
      const [first, second, third] = node.ints.get('perm') ?? [1, 0];
      const isSwap = first === 1 && second === 0 && third === undefined;
      return stored && isSwap ? { ...stored, transposed: !stored.transposed } : null;
    }
    if (node.op === 'DequantizeLinear') {
      const stored = this.resolve(input, names, depth + 1);
      if (stored?.form.kind !== 'plain') return null;
      const axis = node.ints.get('axis')?.[0] ?? 1;
      const block = node.ints.get('block_size')?.[0] ?? 0;
      return {
        ...stored,
        form: { kind: 'linear', axis, block },
        scale: this.#leafOf(scale),
        zero: zero ? this.#leafOf(zero) : null,
      };
    }
    return null;
  }

  /** The initializer behind a value that may pass through Identity nodes. */
  #leafOf(value: string | undefined): string | null {
    const stored = this.resolve(value);
    return stored?.form.kind === 'plain' ? stored.tensor : (value ?? null);
  }

  /** The weights that a node uses. */
  uses(node: Node): Use[] {
    const { op, inputs } = node;
    const found: Use[] = [];
    const add = (
      role: Use['role'],
      value: string | undefined,
      change: (stored: Stored) => Partial<Stored> = () => ({}),
    ) => {
      const names: string[] = [];
      const stored = this.resolve(value, names);
      const isMatrix = role === 'weight' && /Gemm|MatMul/.test(op);
      if (stored) found.push({ node, role, isMatrix, names, stored: { ...stored, ...change(stored) } });
    };
    if (op === 'Tile') add('probe', inputs[0]); // SigLIP's query of the pooling head, once per image
    const combined = node.name.endsWith('_scales_mul') ? null : elementwise(node);
    if (combined)
      for (const input of operands(node)) {
        if (!input || this.#isScalar(input)) continue;
        const at = inputs.indexOf(input);
        const [scale, zero] = op.startsWith('QLinear') ? [inputs[at + 1], inputs[at + 2]] : [];
        const form = { kind: 'linear', axis: -1, block: 0 } as const;
        const change = scale ? { form, scale: this.#leafOf(scale), zero: zero ? this.#leafOf(zero) : null } : {};
        add(combined === 'Add' ? 'bias' : 'weight', input, () => change);
      }
    if (!Object.hasOwn(OPERATORS, op)) return found;
    const [weight, bias, scale = -1, zero = -1, kind] = OPERATORS[op]!;
    const leaf = (index: number) => (inputs[index] ? this.#leafOf(inputs[index]) : null);
    if (kind === 'blocks' && weight === 1 && inputs[4]) return found; // g_idx, an order of the columns
    add('weight', inputs[weight], (stored) => ({
      // Products have the matrix [in, out], except for packed ones.
      ...(/Gemm|MatMul(?!NBits|Bnb4)/.test(op) && !node.ints.get('transB')?.[0] && { transposed: !stored.transposed }),
      ...(kind && {
        form: formOf(kind, node),
        scale: scale < 0 ? this.#scaleBehind(node, stored.tensor) : leaf(scale),
        zero: leaf(zero),
      }),
    }));
    // Quantized operators have integers as biases, whose scale is that of the products.
    const isInteger = /^(QGemm|QLinearConv)$/.test(op);
    const axis = op === 'QGemm' ? -1 : 0;
    add('bias', inputs[bias], () =>
      isInteger ? { form: { kind: 'linear', axis, block: 0 }, scale: leaf(scale), factor: leaf(1) } : {},
    );
    return found;
  }

  #isScalar(value: string | undefined): boolean {
    const { dims } = this.producer(value)?.value ?? {};
    return dims !== undefined && dims.length <= 16 && dims.every((extent) => extent === 1);
  }

  /** The tensor with the scale of an integer product's weight: a factor of the Mul behind the product. */
  #scaleBehind(node: Node, tensor: string): string | null {
    const byName = tensor.replace(/_quantized$/, '_scale');
    if (byName !== tensor && this.#consumers.has(byName)) return byName;
    let value: string | undefined = node.outputs[0];
    for (let depth = 0; depth < 4; depth++) {
      const near = this.consumers(value).slice(0, MAX_CONSUMERS);
      const next: Node | undefined = near.find(({ op }) => op === 'Cast' || op === 'Mul');
      if (next?.op === 'Mul') {
        const factor = otherOperand(next, value);
        const behind = this.producer(factor);
        const found = [factor, ...(behind ? operands(behind) : [])].map((value) => this.resolve(value));
        return found.find((stored) => stored?.form.kind === 'plain')?.tensor ?? null;
      }
      value = next?.outputs[0];
    }
    return null;
  }

  /** The name of the first value that is added to a node's output and that `accept` accepts. */
  addedName(node: Node, accept: (name: string) => boolean): string | null {
    const own = this.uses(node).find(({ role }) => role === 'bias');
    const ownName = own?.names.find(accept);
    if (ownName) return ownName;
    let value: string | undefined = node.outputs[0];
    for (let depth = 0; depth < 6; depth++) {
      let next: Node | undefined;
      for (const consumer of this.consumers(value).slice(0, MAX_CONSUMERS)) {
        const { op, inputs } = consumer;
        const at = { BiasGelu: 1, FastGelu: 1, SkipLayerNormalization: 4 }[op];
        const isSum = elementwise(consumer) === 'Add';
        const added = at !== undefined ? inputs[at] : isSum ? otherOperand(consumer, value) : undefined;
        const names: string[] = [];
        if (added && this.resolve(added, names)) {
          const name = names.find(accept);
          if (name) return name;
        }
        if (['Cast', 'Mul', 'QuantizeLinear', 'DequantizeLinear', 'Identity'].includes(op)) next ??= consumer;
      }
      if (!next) return null;
      value = next.outputs[0];
    }
    return null;
  }
}

export function plain(tensor: string): Stored {
  return {
    form: { kind: 'plain' },
    tensor,
    scale: null,
    zero: null,
    factor: null,
    transposed: false,
    part: null,
    offset: 0,
  };
}

/**
 * The form of an operator's weight, given its attributes. Those that are required and missing are NaN; `recover` checks
 * all, because not every weight in the graph is needed.
 */
function formOf(kind: Form['kind'], { op, ints }: Node): Form {
  const int = (name: string, fallback = NaN) => ints.get(name)?.[0] ?? fallback;
  const isByRow = /Conv/.test(op) || (op === 'QGemm' && int('transB', 0) === 1);
  if (kind === 'linear') return { kind, axis: isByRow ? 0 : -1, block: 0 };
  if (kind === 'bnb4')
    return { kind, type: int('quant_type'), block: int('block_size'), rows: int('N'), columns: int('K') };
  const isTable = op === 'GatherBlockQuantized';
  const [rows, columns] = isTable ? [0, 0] : [int('N'), int('K')];
  // Tables with other axes are not made.
  const isTableByRow = !isTable || (int('gather_axis', 0) === 0 && [1, -1].includes(int('quantize_axis', 1)));
  const block = isTableByRow ? int('block_size', isTable ? 128 : NaN) : NaN;
  return { kind: 'blocks', bits: int('bits', 4), block, isTable, rows, columns };
}
