/**
 * Maps a checkpoint's tensors to rows of heed's parameters: a parameter such as `in_proj_weight` may be stored as
 * several tensors.
 */
import { groupBy } from '../../base/lists.js';
import { parameterRowsOf } from '../../models/families/families.js';
import type { LoadedModel } from '../../models/loaded-model.js';
import type { RawNamedRows } from '../graph/train-core.js';

/** The named rows of all tensors of a model's encoder. */
export function namedRowsOf({ raw, family, config, names }: LoadedModel): RawNamedRows[] {
  const parameters = raw.parameters();
  const indices = new Map(parameters.map(({ name }, i) => [name, i]));
  const all = [...parameterRowsOf(family, config)].flatMap(([bare, { parameter, firstRow }]) => {
    const name = names.get(bare);
    const index = indices.get(parameter);
    const copied = family.copies?.[bare];
    const isCopy = copied !== undefined && names.has(copied);
    return name === undefined || index === undefined || isCopy ? [] : [{ name, parameter: index, firstRow, rows: 0 }];
  });
  for (const [parameter, parts] of groupBy(all, ({ parameter }) => parameter)) {
    let [end, first] = [parameters[parameter]!.shape[0]!, Infinity];
    for (const part of [...parts].sort((a, b) => b.firstRow - a.firstRow)) {
      if (part.firstRow < first && first < Infinity) end = first;
      first = part.firstRow;
      part.rows = end - first;
    }
  }
  return all;
}
