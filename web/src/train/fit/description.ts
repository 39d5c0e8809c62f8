/** Describes models as plain data, from which a worker makes models of the same structure. */
import { describe, invalid } from '../../base/error.js';
import type { Runtime } from '../../base/owned.js';
import { layers } from '../../layers/classes.js';
import type { SequentialPart } from '../../layers/composition/sequential.js';
import { Layer, type UnboundLayer } from '../../layers/layer.js';
import type { Tape } from '../graph/tape.js';
import { type Module, Sequential } from '../module.js';
import { ownClasses, trainable } from '../trainable/trainable.js';

/**
 * A layer by its class and options, a `Sequential` by its parts, or a repetition of an earlier part, by its index in
 * the order of description, from 0.
 */
export type Description =
  | { readonly layer: string; readonly options: object }
  | { readonly parts: readonly Description[] }
  | { readonly again: number };

/** @throws HeedError for parts that cannot be sent to a worker: functions and custom classes */
export function describeModel(argument: string, model: object): Description {
  const seen: object[] = [];
  const visit = (part: unknown, path: string): Description => {
    const before = seen.indexOf(part as object);
    if (before >= 0) return { again: before };
    const isOwn = typeof part === 'object' && part !== null && ownClasses.has(part.constructor);
    if (isOwn) seen.push(part);
    if (isOwn && part instanceof Sequential) return { parts: part.parts.map((each, i) => visit(each, `${path}${i}.`)) };
    if (isOwn && part instanceof Layer)
      return { layer: part.name, options: (part as unknown as { options: object }).options };
    const what = `${describe(part)}${path && `, part ${path.slice(0, -1)}`}`;
    throw invalid(argument, "a Sequential of heed's layers, which can be made again in a worker", what);
  };
  return visit(model, '');
}

/** Makes a model from its description. */
export function buildModel(tape: Tape, runtime: Runtime, description: Description): Module {
  const made: object[] = [];
  const build = (part: Description): object => {
    if ('again' in part) return made[part.again]!;
    const place = made.push({}) - 1;
    if ('parts' in part)
      made[place] = new Sequential(
        tape,
        part.parts.map((each) => build(each) as SequentialPart),
      );
    else {
      const { layer: name, options } = part;
      const Base = layers[name as 'Linear'] as unknown as UnboundLayer<Layer, object>;
      // The options have already been read, so only the methods come from the class with training.
      const Trained = trainable(tape, name, Base as unknown as new () => Layer) as new () => Layer;
      made[place] = Reflect.construct(Base, [runtime, name, options], Trained);
    }
    return made[place]!;
  };
  return build(description) as Module;
}
