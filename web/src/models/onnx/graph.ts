/**
 * Finds the weights that a graph's operators use. A weight is followed back through operators that do not change its
 * values, and through dequantization, to the tensors in which it is stored.
 */
import type { Node } from './messages.js';

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
  /** Whether the stored matrix is W transposed. */
  transposed: boolean;
  /** The weight is part `index` of `of` equal parts of W's rows, as of merged queries, keys and values. */
  part: { index: number; of: number } | null;
}

/** A weight as an operator uses it. */
export interface Use {
  node: Node;
  /** What the operator does with the weight: the last part of its name in a state dict. */
  role: 'weight' | 'bias';
  /** Whether the weight is a matrix that is multiplied. */
  isMatrix: boolean;
  stored: Stored;
  /** The names of the values between the stored tensor and the operator, the operator's input first. */
  names: string[];
}

/** The operators of a domain that heed knows to leave the meaning of their weights unchanged. */
const MICROSOFT = new Set(
  (
    'Attention QAttention MultiHeadAttention GroupQueryAttention EmbedLayerNormalization QEmbedLayerNormalization ' +
    'SkipLayerNormalization SimplifiedLayerNormalization SkipSimplifiedLayerNormalization BiasGelu FastGelu Gelu ' +
    'QuickGelu BiasSplitGelu BiasAdd BiasSoftmax BiasDropout FusedMatMul FusedGemm FusedConv FusedMatMulActivation ' +
    'TransposeMatMul MatMulNBits MatMulBnb4 GatherBlockQuantized DynamicQuantizeMatMul MatMulIntegerToFloat ' +
    'QuantizeLinear DequantizeLinear QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearSoftmax QGemm ' +
    'RotaryEmbedding RelativePositionBias GatedRelativePositionBias'
  ).split(' '),
);

/** Whether an operator is one of ONNX or a known one of onnxruntime. */
export function isKnown({ domain, op }: Node): boolean {
  return domain === '' || (domain === 'com.microsoft' && MICROSOFT.has(op));
}

/** Operators that pass a tensor on unchanged or as another view of its values. */
const PASSING = new Set(['Identity', 'Cast', 'CastLike', 'Dropout', 'Squeeze', 'Unsqueeze']);

/** Limit on chains of operators before a weight. */
const MAX_DEPTH = 32;

export class Graph {
  readonly nodes: Node[] = [];
  readonly #producers = new Map<string, Node>();
  readonly #consumers = new Map<string, Node[]>();

  add(node: Node): void {
    this.nodes.push(node);
    for (const output of node.outputs) if (output !== '') this.#producers.set(output, node);
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
  isLeaf(value: string | undefined): value is string {
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
      const permutation = node.ints.get('perm') ?? [1, 0];
      return stored && String(permutation) === '1,0' ? { ...stored, transposed: !stored.transposed } : null;
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
      isMatrix = false,
      change: (stored: Stored) => Partial<Stored> = () => ({}),
    ) => {
      const names: string[] = [];
      const stored = this.resolve(value, names);
      if (stored) found.push({ node, role, isMatrix, names, stored: { ...stored, ...change(stored) } });
    };
    const int = (name: string) => node.ints.get(name)?.[0] ?? 0;
    const flipped = ({ transposed }: Stored) => ({ transposed: !transposed });
    const leaf = (index: number) => (inputs[index] ? this.#leafOf(inputs[index]) : null);
    const sizes = () => ({ rows: int('N'), columns: int('K'), block: int('block_size') });
    const quantized = (scale: number, zero: number) => (stored: Stored) => ({
      form: { kind: 'linear', axis: -1, block: 0 } as const,
      scale: leaf(scale),
      zero: leaf(zero),
      transposed: !stored.transposed,
    });
    switch (op) {
      case 'MatMul':
      case 'FusedMatMul':
      case 'FusedMatMulActivation':
      case 'TransposeMatMul':
        add('weight', inputs[1], true, int('transB') ? undefined : flipped);
        break;
      case 'Gemm':
      case 'FusedGemm':
        add('weight', inputs[1], true, int('transB') ? undefined : flipped);
        add('bias', inputs[2]);
        break;
      case 'MatMulInteger':
        add('weight', inputs[1], true, (stored) => ({
          ...quantized(-1, 3)(stored),
          scale: this.#scaleBehind(node),
        }));
        break;
      case 'ConvInteger':
        add('weight', inputs[1], false, () => ({
          form: { kind: 'linear', axis: 0, block: 0 } as const,
          scale: this.#scaleBehind(node),
          zero: leaf(3),
        }));
        break;
      case 'DynamicQuantizeMatMul':
        add('weight', inputs[1], true, quantized(2, 3));
        add('bias', inputs[4]);
        break;
      case 'MatMulIntegerToFloat':
        add('weight', inputs[1], true, quantized(3, 5));
        add('bias', inputs[6]);
        break;
      case 'MatMulNBits':
        // Input 4 is g_idx, an order of the columns.
        if (inputs[4]) break;
        add('weight', inputs[1], true, () => ({
          form: { kind: 'blocks', bits: int('bits') || 4, isTable: false, ...sizes() } as const,
          scale: leaf(2),
          zero: leaf(3),
        }));
        add('bias', inputs[5]);
        break;
      case 'MatMulBnb4':
        add('weight', inputs[1], true, () => ({
          form: { kind: 'bnb4', type: int('quant_type'), ...sizes() } as const,
          scale: leaf(2),
        }));
        break;
      case 'GatherBlockQuantized':
        add('weight', inputs[0], false, () => ({
          form: {
            kind: 'blocks',
            bits: int('bits') || 4,
            block: int('block_size') || 128,
            rows: 0,
            columns: 0,
            isTable: true,
          } as const,
          scale: leaf(2),
          zero: leaf(3),
        }));
        break;
      case 'Conv':
      case 'FusedConv':
      case 'LayerNormalization':
      case 'SimplifiedLayerNormalization':
        add('weight', inputs[1]);
        add('bias', inputs[2]);
        break;
      case 'Gather':
        add('weight', inputs[0]);
        break;
      case 'Add':
        for (const input of inputs) if (!this.#isScalar(input)) add('bias', input);
        break;
      case 'Mul':
        if (!node.name.endsWith('_scales_mul'))
          for (const input of inputs) if (!this.#isScalar(input)) add('weight', input);
        break;
    }
    return found;
  }

  #isScalar(value: string | undefined): boolean {
    return this.producer(value)?.value?.dims.every((extent) => extent === 1) === true;
  }

  /** The tensor with the scale of an integer product's weight: a factor of the Mul behind the product. */
  #scaleBehind(node: Node): string | null {
    const weight = node.inputs[1] ?? '';
    const byName = weight.replace(/_quantized$/, '_scale');
    if (byName !== weight && this.#consumers.has(byName)) return byName;
    let value: string | undefined = node.outputs[0];
    for (let depth = 0; depth < 4; depth++) {
      const next: Node | undefined = this.consumers(value).find(({ op }) => op === 'Cast' || op === 'Mul');
      if (next?.op === 'Mul') {
        const factor = next.inputs.find((input) => input !== value);
        const scales = this.producer(factor)?.inputs.filter((input) => this.isLeaf(input)) ?? [];
        return this.isLeaf(factor) ? (factor ?? null) : (scales[0] ?? null);
      }
      value = next?.outputs[0];
    }
    return null;
  }

  /** The name of the first value that is added to a node's output and that `accept` accepts. */
  addedName(node: Node, accept: (name: string) => boolean): string | null {
    let value: string | undefined = node.outputs[0];
    for (let depth = 0; depth < 6; depth++) {
      let next: Node | undefined;
      for (const consumer of this.consumers(value)) {
        const { op, inputs } = consumer;
        const at = { BiasGelu: 1, FastGelu: 1, SkipLayerNormalization: 4 }[op];
        const added =
          at !== undefined ? inputs[at] : op === 'Add' ? inputs.find((input) => input !== value) : undefined;
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
  return { form: { kind: 'plain' }, tensor, scale: null, zero: null, transposed: false, part: null };
}
