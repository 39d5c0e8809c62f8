/**
 * Finds which stored tensors hold each tensor of the state dict: by the names of the stored tensors, by the modules that
 * the exporters record in the graph, by the names of biases, and by the order of the forward pass.
 */
import { invalid } from '../../base/error.js';
import type { ParameterRows } from '../families/family.js';
import { bareName } from '../families/weights.js';
import { type Graph, isKnown, plain, type Stored, type Use } from './graph.js';
import type { Node } from './messages.js';
import { olderName, type Part } from './older-names.js';

/** The tensors that a model has a place for. */
export interface Wanted {
  /** config.json's `model_type`. */
  type: string;
  /** The number that the model adds to the weights of its norms. */
  normOffset: number;
  /** The prefix of the encoder's tensors in a checkpoint with a head. */
  prefix: string;
  /** The encoder's tensors, by their names without the prefix. */
  rows: ReadonlyMap<string, ParameterRows>;
  /** Whether a layer after the encoder may use a tensor, given by its name without the prefix. */
  isHead(name: string): boolean;
}

/** A tensor of the state dict. `name`: with the prefix that the file uses. `parts`: where its rows are stored. */
export interface Assignment {
  name: string;
  parts: Stored[];
}

/** A tensor of the state dict, or a part of one: its name without the family's prefix, and its name in the file. */
interface Target {
  bare: string;
  name: string;
  part: Part | null;
}

/** Wrappers around a model whose names come before those of its modules. */
const WRAPPERS = /^(0|model|auto_model|base_model|module|transformer|text_model|vision_model)\./;

/** The suffixes that quantizers append to the name of a tensor. */
const QUANTIZED = /(_Transposed)?_(quantized|(DQ_)?Q\d+|Bnb4)$/;

export class Names {
  readonly #graph: Graph;
  readonly #wanted: Wanted;
  readonly #found = new Map<string, Assignment>();
  /** Operators that keep heed from a tensor, by the tensor's name. */
  readonly #blocked = new Map<string, string>();

  private constructor(graph: Graph, wanted: Wanted) {
    this.#graph = graph;
    this.#wanted = wanted;
  }

  /**
   * The tensors of the state dict that the graph's tensors hold.
   * @throws HeedError UNSUPPORTED for a tensor that heed cannot recover
   */
  static of(graph: Graph, wanted: Wanted, file: string): Assignment[] {
    const names = new Names(graph, wanted);
    names.#assign();
    names.#refuse(file);
    return [...names.#found.values()].filter(isComplete);
  }

  #assign(): void {
    const { nodes } = this.#graph;
    const uses = nodes.flatMap((node) => this.#graph.uses(node));
    for (const use of uses) use.stored = this.#withScales(use.stored);
    this.#addMerged();
    for (const use of uses)
      for (const name of use.names) this.#add(name.replace(QUANTIZED, ''), use.stored, use.isMatrix);
    for (const node of nodes)
      for (const value of [...node.inputs, ...node.outputs]) if (value !== '') this.#addNamed(value);
    const isNamed = (use: Use) =>
      [...this.#found.values()].some(({ parts }) => parts.some((stored) => stored.tensor === use.stored.tensor));
    const modules = uses.filter((use) => use.role === 'bias' || use.isMatrix || !['Mul'].includes(use.node.op));
    for (const use of modules) this.#addByModule(use);
    for (const use of uses) if (use.node.op === 'Mul') this.#addByModule(use);
    const matrices = uses.filter((use) => use.isMatrix && !isNamed(use));
    this.#addPositions();
    this.#addByBias(matrices);
    this.#addByOrder(matrices.filter((use) => !isNamed(use)));
    for (const node of nodes) if (!isKnown(node)) this.#block(node.domain, node.op, node.name, node.inputs);
  }

  /** The tensor of the state dict with this name, which may have wrappers' names before it. */
  #target(given: string): Target | null {
    if (/_(scale|zero_point)$/.test(given)) return null;
    const { prefix, rows, isHead, type } = this.#wanted;
    const targetOf = (name: string, part: Part | null): Target | null => {
      const bare = bareName(name, prefix);
      return rows.has(bare) || (bare.includes('.') && isHead(bare)) ? { bare, name, part } : null;
    };
    for (let rest = given; ; ) {
      const older = olderName(type, rest);
      const target = targetOf(rest, null) ?? targetOf(older.name, older.part);
      const shorter = rest.replace(WRAPPERS, '');
      if (target || shorter === rest) return target;
      rest = shorter;
    }
  }

  /** Assigns a tensor if its place is free. A matrix in fp32 takes precedence over the same one quantized. */
  #add(name: string, stored: Stored, isMatrix = false): void {
    const target = this.#target(name);
    if (!target) return;
    const { bare, part } = target;
    const found = this.#found.get(bare) ?? { name: target.name, parts: new Array<Stored>(part?.of ?? 1) };
    const index = part?.index ?? 0;
    const before = found.parts[index];
    if (before && !(isMatrix && before.form.kind !== 'plain' && stored.form.kind === 'plain')) return;
    found.parts[index] = stored;
    this.#found.set(bare, found);
  }

  /** Assigns a tensor by its own name, if no operator that heed reads uses it. */
  #addNamed(value: string): void {
    const base = value.replace(QUANTIZED, '');
    const stored = this.#target(base) && this.#graph.resolve(value);
    if (stored) this.#add(base, this.#withScales(stored));
  }

  #addByModule({ node, role, stored: given, isMatrix }: Use): void {
    const path = node.scope || node.name.split('/').filter(Boolean).slice(0, -1).join('.');
    if (path === '') return;
    const offset = node.op === 'Mul' ? this.#wanted.normOffset : 0;
    const stored = offset === 0 ? given : { ...given, offset };
    const plainPath = path.replace(/_\d+(?=\.|$)/g, ''); // a module that runs twice
    for (const module of new Set([path, plainPath]))
      for (const name of node.op === 'Add' ? [role, 'position_embedding.weight'] : [role])
        if (this.#target(`${module}.${name}`)) {
          this.#add(`${module}.${name}`, stored, isMatrix);
          return;
        }
  }

  /** Assigns matrices by the biases that are added to their products, except where several lead to the same name. */
  #addByBias(uses: readonly Use[]): void {
    const isBias = (name: string) => /\.bias(_quantized)?$/.test(name) && this.#target(nameOf(name)) !== null;
    const nameOf = (bias: string) => bias.replace(/\.bias(_quantized)?$/, '.weight');
    const named = new Map<string, Use[]>();
    for (const use of uses) {
      const own = this.#graph
        .uses(use.node)
        .find(({ role }) => role === 'bias')
        ?.names.find(isBias);
      const bias = own ?? this.#graph.addedName(use.node, isBias);
      if (bias) named.set(nameOf(bias), [...(named.get(nameOf(bias)) ?? []), use]);
    }
    for (const [name, [use, ...others]] of named)
      if (others.every(({ stored }) => stored.tensor === use!.stored.tensor)) this.#add(name, use!.stored, true);
  }

  /** Assigns the remaining matrices in the order of the forward pass. Their shapes are checked when they are read. */
  #addByOrder(uses: readonly Use[]): void {
    const free = new Map<string, string>();
    const taken = new Set<string>();
    const placeOf = ({ parameter, firstRow }: ParameterRows) => `${parameter} ${firstRow}`;
    for (const [name, rows] of this.#wanted.rows) if (this.#found.has(name)) taken.add(placeOf(rows));
    for (const [name, rows] of this.#wanted.rows) {
      const isMatrix = name.endsWith('.weight') && /^layers\.\d+\.(self_attn\.(?!._norm)|linear)/.test(rows.parameter);
      if (!isMatrix || taken.has(placeOf(rows))) continue;
      taken.add(placeOf(rows));
      free.set(name, rows.parameter);
    }
    const numberOf = ({ node }: Use) =>
      Number(/_(\d+)(?!.*_\d+(_|$))/.exec(node.name.replace(/_Q\d+$/, ''))?.[1] ?? NaN);
    const isNumbered = uses.every((use) => !Number.isNaN(numberOf(use)));
    const inOrder = isNumbered ? [...uses].sort((a, b) => numberOf(a) - numberOf(b)) : uses;
    const distinct = inOrder.filter(
      ({ stored }, i) => inOrder.findIndex((other) => other.stored.tensor === stored.tensor) === i,
    );
    if (distinct.length < free.size) return;
    const names = [...free.keys()];
    const merged = names.filter((name) => /Wqkv/.test(name)).length;
    // Separate queries, keys and values of a family whose checkpoints have them in one matrix.
    const isSplit = this.#wanted.type === 'nomic_bert' && distinct.length >= names.length + 2 * merged;
    const places = names.flatMap((name) =>
      isSplit && /Wqkv/.test(name) ? ['q', 'k', 'v'].map((part) => name.replace('Wqkv', `${part}_proj`)) : [name],
    );
    places.forEach((name, i) => this.#add(name, distinct[i]!.stored, true));
  }

  /**
   * Assigns the queries, keys and values that onnxruntime's optimizer has merged into one matrix per layer. The n-th
   * Attention is layer n.
   */
  #addMerged(): void {
    const attentions = this.#graph.nodes.filter(
      ({ domain, op }) => domain === 'com.microsoft' && /^Q?Attention$/.test(op),
    );
    attentions.forEach((node, layer) => {
      for (const [index, part] of [
        [1, 'weight'],
        [2, 'bias'],
      ] as const) {
        const stored = this.#graph.resolve(node.inputs[index]);
        if (!stored) continue;
        const parameter = `layers.${layer}.self_attn.in_proj_${part}`;
        const names = [...this.#wanted.rows].filter(([, rows]) => rows.parameter === parameter);
        names.sort(([, a], [, b]) => a.firstRow - b.firstRow);
        if (names.length !== 3) continue;
        const isInteger = node.op === 'QAttention' && part === 'weight';
        const whole = isInteger
          ? {
              form: { kind: 'linear', axis: -1, block: 0 } as const,
              scale: node.inputs[4]!,
              zero: node.inputs[7] || null,
            }
          : {};
        names.forEach(([name], part) =>
          this.#add(name, { ...stored, ...whole, transposed: index === 1, part: { index: part, of: 3 } }),
        );
      }
    });
  }

  /**
   * Assigns DINOv2's position embeddings, which a constant-folding exporter has split into that of the class token, in a
   * Concat, and those of the patches, in a Reshape.
   */
  #addPositions(): void {
    const name = 'embeddings.position_embeddings';
    if (!this.#wanted.rows.has(name) || this.#found.has(name)) return;
    const partOf = (op: string) => {
      const isPart = (node: Node) =>
        node.op === op && /(^|\/)embeddings\//.test(node.name) && /^onnx::/.test(node.inputs[0] ?? '');
      return this.#graph.nodes.find(isPart)?.inputs[0];
    };
    const [first, rest] = [partOf('Concat'), partOf('Reshape')];
    if (first && rest) this.#found.set(name, { name, parts: [plain(first), plain(rest)] });
  }

  /** Records an operator that heed does not know for the tensors that it reads or that its module has. */
  #block(domain: string, op: string, name: string, inputs: readonly string[]): void {
    const operator = `${op} of domain '${domain}'`;
    const module = name.split('/').filter(Boolean).slice(0, -1).join('.');
    const own = this.#target(`${module}.weight`)?.bare;
    if (own && !this.#found.has(own)) this.#blocked.set(own, operator);
    const read = new Set(inputs.flatMap((input) => this.#graph.resolve(input)?.tensor ?? []));
    for (const [bare, { parts }] of this.#found)
      if (parts.some(({ tensor }) => read.has(tensor))) this.#blocked.set(bare, operator);
  }

  /** A tensor that quantize_dynamic has stored as `X_quantized`, with its scale and zero point under their names. */
  #withScales(stored: Stored): Stored {
    const name = stored.tensor.replace(/_quantized$/, '');
    if (stored.form.kind !== 'plain' || name === stored.tensor) return stored;
    const leafOf = (part: string) => (this.#graph.consumers(name + part).length > 0 ? name + part : null);
    const form = { kind: 'linear', axis: -1, block: 0 } as const;
    return { ...stored, form, scale: leafOf('_scale'), zero: leafOf('_zero_point') };
  }

  #refuse(file: string): void {
    const blocked = [...this.#blocked].find(([bare]) => this.#wanted.rows.has(bare));
    if (blocked) {
      const [name, operator] = blocked;
      throw invalid(`${file}: tensor '${name}'`, 'operators that heed knows', operator, 'UNSUPPORTED');
    }
    const isMerged = ({ domain, op }: { domain: string; op: string }) =>
      domain === 'com.microsoft' && /Attention$/.test(op);
    const fused = this.#graph.nodes.find(isMerged);
    const isMissing = ([name, { parameter }]: [string, ParameterRows]) =>
      /self_attn\..*weight$/.test(parameter) && !/norm/.test(parameter) && !this.#found.has(name);
    const places = new Set(
      [...this.#wanted.rows].filter((each) => !isMissing(each)).map(([, { parameter }]) => parameter),
    );
    const missing = [...this.#wanted.rows].find((each) => isMissing(each) && !places.has(each[1].parameter));
    if (fused && missing)
      throw invalid(file, 'weights by layer', `a graph fused by onnxruntime (${fused.op})`, 'UNSUPPORTED', {
        hint: "Use the folder's onnx/model.onnx or model.safetensors",
      });
  }
}

/** Whether all parts of a tensor have been found. */
function isComplete({ parts }: Assignment): boolean {
  return !parts.includes(undefined as never);
}
