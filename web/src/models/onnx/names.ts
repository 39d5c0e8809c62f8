/**
 * Finds which stored tensors hold each tensor of the state dict: by the names of the stored tensors, by the modules that
 * the exporters record in the graph, by the names of biases, and by where their products go (roles.ts).
 */
import { invalid } from '../../base/error.js';
import type { ParameterRows } from '../families/family.js';
import { bareName, wrapperOf } from '../families/weights.js';
import { elementwise, type Graph, plain, type Stored, type Use } from './graph.js';
import type { Node } from './messages.js';
import { olderName } from './older-names.js';
import { type Role, Roles, rolesOf } from './roles.js';

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
  /** Whether such a tensor is not tied to the embeddings. */
  isOwn(name: string): boolean;
}

/** A tensor of the state dict. `name`: with the prefix that the file uses. `parts`: where its rows are stored. */
export interface Assignment {
  name: string;
  parts: Stored[];
}

/** Modules that checkpoints have around an encoder, whose names come before those of its modules. */
const WRAPPERS = /^(0|model|auto_model|base_model|module|transformer|text_model|vision_model)\./;

/** The ends of the names of tensors after the encoder. */
const HEAD = /\.(weight|bias|probe|in_proj_\w+)$/;

/** The suffixes that quantizers append to the name of a tensor. */
const QUANTIZED = /(_Transposed)?_(quantized|(DQ_)?Q\d+|Bnb4)$/;

/** Longer names are not those of a model's tensors. */
const MAX_NAME = 1000;

const modules = new WeakMap<Node, string>();

/** The path of the module to which a node belongs. */
function moduleOf(node: Node): string {
  let path = modules.get(node);
  if (path === undefined) {
    path = node.scope || node.name.split('/').filter(Boolean).slice(0, -1).join('.');
    modules.set(node, path);
  }
  return path;
}

/**
 * The tensors of the state dict that the graph's tensors hold.
 * @throws HeedError UNSUPPORTED for a tensor that heed cannot recover
 */
export function assignedTensors(graph: Graph, wanted: Wanted, file: string): Assignment[] {
  const names = new Names(graph, wanted);
  names.assign();
  names.refuse(file);
  return [...names.found.values()];
}

class Names {
  readonly found = new Map<string, Assignment>();
  /** The results of `#findTarget` by name, because a graph repeats its names. */
  readonly #targets = new Map<string, { bare: string; name: string } | null>();

  /**
   * The names of the modules around the encoder, with a dot at the end, in the names of tensors and in those of nodes:
   * exporters name a module of a Sequential 'st.0' in the former and 'st.st.0' in the latter.
   */
  readonly #wrappers: string[];

  constructor(
    readonly graph: Graph,
    readonly wanted: Wanted,
  ) {
    const { nodes, file } = graph;
    const values = new Set(nodes.flatMap(({ inputs }) => inputs.map((name) => name.replace(QUANTIZED, ''))));
    const modules = new Set(nodes.map((node) => `${moduleOf(node)}.weight`));
    const tensorOf = (name: string) => this.#tensorOf(name);
    // A model that runs twice has nodes of two names.
    const wrappers = [wrapperOf(values, tensorOf, file), wrapperOf(modules, tensorOf)];
    this.#wrappers = wrappers.sort((a, b) => b.length - a.length);
  }

  assign(): void {
    const { nodes } = this.graph;
    const uses = nodes.flatMap((node) => this.graph.uses(node));
    for (const use of uses) use.stored = this.#withScales(use.stored);
    this.#addMerged();
    for (const use of uses) for (const name of use.names) this.#add(name.replace(QUANTIZED, ''), use);
    // Tensors whose operators have no row in the graph's table, such as norms that exporters divide into parts.
    for (const value of nodes.flatMap(({ inputs, outputs }) => [...inputs, ...outputs])) {
      const name = value.replace(QUANTIZED, '');
      const stored = value.includes('.') && this.#target(name) && this.graph.resolve(value);
      if (stored) this.#add(name, { stored: this.#withScales(stored) });
    }
    const isFactor = ({ node }: Use) => elementwise(node) === 'Mul';
    for (const use of uses) if (!isFactor(use)) this.#addByModule(use);
    for (const use of uses) if (isFactor(use)) this.#addByModule(use);
    this.#addPositions();
    const matrices = () => {
      const tensors = new Set([...this.found.values()].flatMap(({ parts }) => parts.map(({ tensor }) => tensor)));
      return uses.filter(({ isMatrix, stored }) => isMatrix && !tensors.has(stored.tensor));
    };
    this.#addByBias(matrices());
    this.#addByRole(matrices(), new Set(uses.flatMap(({ isMatrix, node }) => (isMatrix ? node : []))));
    this.#removeTied();
  }

  /** Removes tied tensors of heads that the file stores once: they are the embeddings. */
  #removeTied(): void {
    const { rows, isOwn } = this.wanted;
    const tensorsOf = ({ parts }: Assignment) => parts.map(({ tensor }) => tensor);
    const ofEncoder = new Set([...this.found].flatMap(([bare, found]) => (rows.has(bare) ? tensorsOf(found) : [])));
    for (const [bare, found] of this.found) {
      const isPlain = found.parts.every(({ form }) => form.kind === 'plain');
      const isOnce = isPlain && tensorsOf(found).every((tensor) => ofEncoder.has(tensor));
      if (isOnce && !rows.has(bare) && !isOwn(bare)) this.found.delete(bare);
    }
  }

  /** The tensor of the state dict with this name, which may have wrappers' names before it. */
  #target(given: string): { bare: string; name: string } | null {
    let target = this.#targets.get(given);
    if (target === undefined) {
      target = this.#findTarget(given);
      this.#targets.set(given, target);
    }
    return target;
  }

  #findTarget(given: string): { bare: string; name: string } | null {
    const { prefix, rows, isHead, type } = this.wanted;
    if (given.length > MAX_NAME || /_(scale|zero_point)$/.test(given)) return null;
    const wrapper = this.#wrappers.find((each) => given.startsWith(each)) ?? '';
    for (let rest = given.slice(wrapper.length); ; ) {
      for (const name of [rest, olderName(type, rest)]) {
        const bare = bareName(name, prefix);
        if (rows.has(bare) || (HEAD.test(bare) && isHead(bare))) return { bare, name };
      }
      const shorter = rest.replace(WRAPPERS, '');
      if (shorter === rest) return null;
      rest = shorter;
    }
  }

  /** The encoder's tensor with this name. */
  #tensorOf(given: string): string | null {
    const { prefix, rows, type } = this.wanted;
    const names = [given, olderName(type, given)].map((name) => bareName(name, prefix));
    return names.find((bare) => rows.has(bare)) ?? null;
  }

  /** Whether a tensor of the encoder has this name and has not been found. */
  #isFree(name: string): boolean {
    const { bare = '' } = this.#target(name) ?? {};
    return this.wanted.rows.has(bare) && !this.found.has(bare);
  }

  /** Assigns a tensor if its place is free. A matrix in fp32 takes precedence over the same one quantized. */
  #add(given: string, { stored, isMatrix = false }: Pick<Use, 'stored'> & Partial<Use>): void {
    const target = this.#target(given);
    if (!target) return;
    const [part] = this.found.get(target.bare)?.parts ?? [];
    const before = part?.form.kind;
    if (!before || (isMatrix && before !== 'plain' && stored.form.kind === 'plain'))
      this.found.set(target.bare, { name: target.name, parts: [stored] });
  }

  #addByModule(use: Use): void {
    const { node, role, stored } = use;
    const path = moduleOf(node);
    const offset = elementwise(node) === 'Mul' ? this.wanted.normOffset : 0;
    for (const module of [path, path.replace(/_\d+(?=\.|$)/g, '')]) // the second for a module that runs twice
      for (const part of elementwise(node) === 'Add' ? [role, 'position_embedding.weight'] : [role])
        if (this.#target(`${module}.${part}`)) {
          this.#add(`${module}.${part}`, { ...use, stored: offset ? { ...stored, offset } : stored });
          return;
        }
  }

  /** Assigns matrices by the biases that are added to their products, except where several lead to the same name. */
  #addByBias(uses: readonly Use[]): void {
    const nameOf = (bias: string) => bias.replace(/\.bias(_quantized)?$/, '.weight');
    const isBias = (name: string) => nameOf(name) !== name && this.#target(nameOf(name)) !== null;
    const named = new Map<string, Use | null>();
    for (const use of uses) {
      const bias = this.graph.addedName(use.node, isBias);
      if (!bias) continue;
      const before = named.get(nameOf(bias));
      const isOther = before !== undefined && before?.stored.tensor !== use.stored.tensor;
      named.set(nameOf(bias), isOther ? null : use);
    }
    for (const [name, use] of named) if (use) this.#add(name, use);
  }

  /**
   * Assigns the remaining matrices by what they are for, and those for the same purpose by their order in the graph, which
   * is that of the layers, as each layer reads the one before.
   * @throws HeedError UNSUPPORTED if the graph does not tell which matrix is which
   */
  #addByRole(uses: readonly Use[], weighted: ReadonlySet<Node>): void {
    const { rows } = this.wanted;
    // Several names for the same rows belong to different versions of a family.
    const placeOf = (name: string) => `${rows.get(name)!.parameter} ${rows.get(name)!.firstRow}`;
    const taken = new Set([...this.found.keys()].filter((name) => rows.has(name)).map(placeOf));
    const isFree = (name: string) =>
      name.endsWith('.weight') &&
      /^layers\.\d+\.(self_attn\.(?!._norm)|linear)/.test(rows.get(name)!.parameter) &&
      !taken.has(placeOf(name));
    const all = [...rows.keys()].filter(isFree);
    if (all.length === 0 || uses.length === 0) return;
    const roles = new Roles(this.graph, weighted);
    const byRole = new Map<Role, Map<string, Use>>();
    for (const use of uses) {
      const role = roles.of(use.node);
      if (!role) continue;
      const tensors = byRole.get(role) ?? new Map<string, Use>();
      byRole.set(role, tensors.set(use.stored.tensor, tensors.get(use.stored.tensor) ?? use));
    }
    const versions = [/qkv/i, /\.[qkv]_proj\./].map((other) => {
      const names = all.filter((name) => !other.test(name));
      return names.filter((name, i) => names.findIndex((each) => placeOf(each) === placeOf(name)) === i);
    });
    const named = versions.map((names) => rolesOf(names, rows));
    const sizeOf = (wanted: Map<Role, string[]>) => [...wanted.values()].flat().length;
    const fits = (wanted: Map<Role, string[]>) =>
      [...wanted].every(([role, names]) => names.length <= (byRole.get(role)?.size ?? 0));
    const found = named.sort((a, b) => sizeOf(b) - sizeOf(a)).find(fits);
    if (!found) {
      const count = [...byRole.values()].reduce((sum, { size }) => sum + size, 0);
      if (uses.length < all.length) return; // some are missing, which the loader reports by name
      const got = `${count} of ${uses.length} matrices without names whose place the graph tells`;
      throw invalid(this.graph.file, 'weights with names, or a graph that tells which are which', got, 'UNSUPPORTED', {
        hint: "Use the folder's model.safetensors, or export the model again with names",
      });
    }
    for (const [role, names] of found) {
      const inOrder = [...byRole.get(role)!.values()];
      names.forEach((name, i) => {
        this.#add(name, inOrder[i]!);
      });
    }
  }

  /**
   * Assigns the queries, keys and values that onnxruntime's optimizer has merged into one matrix per layer. The n-th
   * Attention is layer n.
   */
  #addMerged(): void {
    const attentions = this.graph.nodes.filter(({ op }) => /^Q?Attention$/.test(op));
    attentions.forEach(({ op, inputs }, layer) => {
      (['weight', 'bias'] as const).forEach((kind, i) => {
        const stored = this.graph.resolve(inputs[i + 1]);
        const parameter = `layers.${layer}.self_attn.in_proj_${kind}`;
        const names = [...this.wanted.rows]
          .filter(([, rows]) => rows.parameter === parameter)
          .sort(([, a], [, b]) => a.firstRow - b.firstRow);
        if (!stored || names.length !== 3) return;
        if (op === 'QAttention' && kind === 'weight') {
          stored.form = LINEAR;
          stored.scale = inputs[4] ?? '';
          stored.zero = inputs[7] || null;
        }
        names.forEach(([name], index) => {
          this.#add(name, { stored: { ...stored, transposed: kind === 'weight', part: { index, of: 3 } } });
        });
      });
    });
  }

  /**
   * Assigns DINOv2's position embeddings, which a constant-folding exporter has split into that of the class token, in a
   * Concat, and those of the patches, in a Reshape.
   */
  #addPositions(): void {
    const name = 'embeddings.position_embeddings';
    if (!this.#isFree(name)) return;
    const parts = ['Concat', 'Reshape'].flatMap((op) => {
      const isPart = (node: Node) =>
        node.op === op && moduleOf(node).endsWith('embeddings') && /^onnx::/.test(node.inputs[0] ?? '');
      return this.graph.nodes.find(isPart)?.inputs[0] ?? [];
    });
    if (parts.length === 2) this.found.set(name, { name, parts: parts.map(plain) });
  }

  /** A tensor that quantize_dynamic has stored as `X_quantized`, with its scale and zero point under their names. */
  #withScales(stored: Stored): Stored {
    const name = stored.tensor.replace(/_quantized$/, '');
    if (stored.form.kind !== 'plain' || name === stored.tensor) return stored;
    const leafOf = (part: string) => (this.graph.consumers(name + part).length > 0 ? name + part : null);
    return { ...stored, form: LINEAR, scale: leafOf('_scale'), zero: leafOf('_zero_point') };
  }

  /**
   * Refuses operators of unknown domains that weights pass, products that are scaled, and weights that an optimizer has
   * merged otherwise.
   */
  refuse(file: string): void {
    const { graph, found, wanted } = this;
    const used = new Set([...found.values()].flatMap(({ parts }) => parts.map(({ tensor }) => tensor)));
    for (const node of graph.nodes) {
      const factors = /^(Fused)?Gemm$/.test(node.op) ? ['alpha', 'beta'].map((name) => node.floats.get(name) ?? 1) : [];
      const isUsed = () => graph.uses(node).some(({ stored }) => used.has(stored.tensor));
      if (factors.some((factor) => factor !== 1) && isUsed())
        throw invalid(file, `${node.op} with alpha and beta 1`, factors.join(' and '), 'UNSUPPORTED');
      if (node.domain === '') continue;
      const isForeign = node.domain !== 'com.microsoft';
      const users = [node, ...(isForeign ? node.outputs.flatMap((output) => graph.consumers(output)) : [])];
      const missing = users.map((user) => `${moduleOf(user)}.weight`).find((name) => this.#isFree(name));
      const read = node.inputs.map((input) => graph.resolve(input)?.tensor);
      const isRead = ([bare, { parts }]: [string, Assignment]) =>
        wanted.rows.has(bare) && parts.some(({ tensor }) => read.includes(tensor));
      const name = missing ?? (isForeign ? [...found].find(isRead)?.[0] : undefined);
      if (name === undefined) continue;
      if (!ATTENTION.test(node.op))
        throw invalid(file, 'known operators', `${node.op} of domain '${node.domain}' for '${name}'`, 'UNSUPPORTED');
    }
    const fused = graph.nodes.find(({ op, domain }) => domain !== '' && ATTENTION.test(op));
    const filled = new Set([...found.keys()].map((name) => wanted.rows.get(name)?.parameter));
    const isMissing = ({ parameter }: ParameterRows) =>
      /self_attn\.\w+_weight$/.test(parameter) && !filled.has(parameter);
    if (fused && [...wanted.rows.values()].some(isMissing))
      throw invalid(file, 'weights by layer', `a graph fused by onnxruntime (${fused.op})`, 'UNSUPPORTED', {
        hint: "Use the folder's onnx/model.onnx or model.safetensors",
      });
  }
}

const ATTENTION = /Attention$/;
const LINEAR = { kind: 'linear', axis: -1, block: 0 } as const;
