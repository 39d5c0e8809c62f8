/** Models composed of layers, without the code that only training needs. */
import { requireIdle } from '../../base/in-progress.js';
import { dispose, inspected } from '../../base/platform.js';
import type { TensorInput } from '../../base/tensor.js';
import { Unproxied } from '../../base/unproxied.js';
import { Layer } from '../layer.js';
import { type StateDict, writeState } from '../state-dict.js';

export type Child = Layer | Composite;

export const isChild = (value: unknown): value is Child => value instanceof Layer || value instanceof Composite;

/**
 * The methods that list a model's layers and its children. They are symbols because custom models may have a property
 * of any name.
 */
export const allLayers: unique symbol = Symbol('allLayers');
export const ownParts: unique symbol = Symbol('ownParts');

/** A model of layers. Parameters, modes and disposal apply to all its layers. */
export abstract class Composite extends Unproxied {
  #training = false;

  /** Whether dropout is active: true after `train()`; false initially and after `eval()`. */
  get training(): boolean {
    return this.#training;
  }

  /** Switches all layers to training mode, in which dropout is active. */
  train(): this {
    return this.#setTraining(true);
  }

  /** Switches all layers to evaluation mode, in which dropout is the identity. */
  eval(): this {
    return this.#setTraining(false);
  }

  /** The total number of scalars in all parameters, without buffers. */
  get parameterCount(): number {
    return layersOf(this).reduce((sum, [layer]) => sum + layer.parameterCount, 0);
  }

  /**
   * Returns copies of all parameters and buffers by name: the path of properties and indices to the layer, and the
   * parameter's name, joined by dots.
   */
  stateDict(): StateDict {
    const entries = layersOf(this).flatMap(([layer, prefix]) =>
      Object.entries(layer.stateDict()).map(([name, tensor]) => [prefix + name, tensor] as const),
    );
    return Object.fromEntries(entries);
  }

  /**
   * Sets all parameters and buffers. `state` must contain exactly these, in their shapes; see `Layer.loadStateDict`. If
   * it throws, nothing is changed.
   * @throws HeedError `INVALID_ARGUMENT` or `SHAPE_MISMATCH`, listing all parameters that are missing, unexpected or of
   * another shape
   */
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this {
    const argument = `${this.constructor.name}.loadStateDict`;
    const listed = layersOf(this).flatMap(([{ raw }, prefix]) =>
      raw.parameters().map(({ name, shape }, index) => ({ raw, index, name: prefix + name, shape })),
    );
    writeState(argument, listed, state);
    for (const [layer] of layersOf(this)) layer.hasOwnDraws = true;
    return this;
  }

  /** @internal All layers, with the prefixes of their parameters' names. */
  [allLayers](): [Layer, string][] {
    return layersOf(this);
  }

  /** @internal The object whose properties are the children. */
  [ownParts](): object {
    return this;
  }

  /** Whether all layers have been disposed of. */
  get disposed(): boolean {
    return layersOf(this).every(([layer]) => layer.disposed);
  }

  /** Frees the memory of all layers. */
  dispose(): void {
    for (const [layer] of layersOf(this)) layer.dispose();
  }

  /** Calls `dispose`, for `using`. */
  [dispose](): void {
    this.dispose();
  }

  /** @internal The text for `console.log`: the children, one per line, and the number of parameters. */
  [inspected](): string {
    const { name } = this.constructor;
    if (this.disposed) return `${name} (no layers, or disposed)`;
    const lines = childrenOf(this).map(([key, child]) => `  ${key}: ${child[inspected]().replaceAll('\n', '\n  ')}\n`);
    return `${name} {\n${lines.join('')}}, ${this.parameterCount.toLocaleString('en')} parameters`;
  }

  #setTraining(training: boolean): this {
    const raws = layersOf(this).map(([{ raw }]) => raw); // throws after dispose(), before any layer changes
    requireIdle(`${this.constructor.name}.${training ? 'train' : 'eval'}`, raws);
    this.#training = training;
    for (const [, child] of childrenOf(this)) training ? child.train() : child.eval();
    return this;
  }
}

/**
 * Lists all layers of a model, with the prefixes of their parameters' names. A layer that occurs twice is listed once,
 * as in PyTorch.
 */
export function layersOf(model: Composite, prefix = '', listed = new Set<object>()): [Layer, string][] {
  return childrenOf(model).flatMap(([name, child]): [Layer, string][] => {
    if (listed.has(child)) return [];
    listed.add(child);
    const inner = prefix + name;
    return child instanceof Composite ? layersOf(child, `${inner}.`, listed) : [[child, inner + child.separator]];
  });
}

// A function instead of a method, because custom models may have a property of any name.
function childrenOf(model: Composite): [string, Child][] {
  return Object.entries(model[ownParts]()).flatMap(([name, value]): [string, Child][] => {
    if (isChild(value)) return [[name, value]];
    return Array.isArray(value)
      ? value.flatMap((entry, i): [string, Child][] => (isChild(entry) ? [[`${name}.${i}`, entry]] : []))
      : [];
  });
}
