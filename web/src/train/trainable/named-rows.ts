/**
 * Maps a checkpoint's tensors to rows of heed's parameters: a parameter such as `in_proj_weight` may be stored as
 * several tensors.
 */
import type { RawNamedRows } from '../graph/train-core.js';
import { type LoadedModel, parameterRowsOf } from '../inference.js';

/** The named rows of all tensors of a model's encoder. */
export function namedRowsOf({ raw, family, config, names }: LoadedModel): RawNamedRows[] {
  const parameters = raw.parameters();
  const indices = new Map(parameters.map(({ name }, i) => [name, i]));
  const all = [...parameterRowsOf(family, config)].flatMap(([bare, { parameter, firstRow }]) => {
    const name = names.get(bare);
    const index = indices.get(parameter);
    return name === undefined || index === undefined ? [] : [{ name, parameter: index, firstRow, rows: 0 }];
  });
  for (const rows of all) {
    const next = all.flatMap(({ parameter, firstRow }) =>
      parameter === rows.parameter && firstRow > rows.firstRow ? [firstRow] : [],
    );
    rows.rows = Math.min(parameters[rows.parameter]!.shape[0]!, ...next) - rows.firstRow;
  }
  return all;
}
