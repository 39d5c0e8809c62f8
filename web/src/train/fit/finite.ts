/** Finds values that are not finite in data. */
import { guarded, invalid } from '../../base/error.js';

/** More axes than any tensor here has. Deeper arrays are not searched: reading them fails later. */
const MAX_DEPTH = 16;

/** The indices of the first number that is not finite in arrays and tensors; null if there is none. */
function place(value: unknown, path: readonly number[] = []): { path: readonly number[]; value: number } | null {
  if (typeof value === 'number') return Number.isFinite(value) ? null : { path, value };
  if (typeof value !== 'object' || value === null || path.length > MAX_DEPTH) return null;
  if (value instanceof Float32Array || value instanceof Float64Array) {
    const at = value.findIndex((entry) => !Number.isFinite(entry));
    return at < 0 ? null : { path: [...path, at], value: value[at]! };
  }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const found = place(value[i], [...path, i]);
      if (found) return found;
    }
    return null;
  }
  const { data, shape } = value as { data?: unknown; shape?: unknown };
  const found = Array.isArray(shape) ? place(data) : null;
  if (!found) return null;
  const indices: number[] = [];
  let rest = found.path[0]!;
  for (const extent of [...(shape as number[])].reverse()) {
    indices.unshift(rest % extent);
    rest = Math.floor(rest / extent);
  }
  return { path: [...path, ...indices], value: found.value };
}

/**
 * Requires that all numbers of examples are finite. Other values, such as objects for custom models, are not searched.
 * @throws HeedError `INVALID_ARGUMENT`, naming the row (the example) and the column (the index in the last axis)
 */
export function requireFinite(argument: string, values: unknown): void {
  const found = guarded(argument, () => place(values));
  if (!found) return;
  const { path, value } = found;
  const where = `row ${path[0]}, column ${path.length > 1 ? path.at(-1) : 0}`;
  throw invalid(
    argument,
    'finite numbers',
    `${value} in ${where}${path.length > 2 ? ` (at [${path.join(', ')}])` : ''}`,
  );
}
