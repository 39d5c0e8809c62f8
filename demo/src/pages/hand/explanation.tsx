/** Describes the focused cells in a sentence, which stays visible while the reader points at matrices. */
import { decimal, percent } from '../../components/numbers';
import { focus } from './state';
import { headOf, type StepProps } from './step';

export function Explanation({ input, result }: StepProps) {
  return (
    <p class="explanation" role="status">
      {sentence({ input, result }) ??
        'Point at a cell, or move through a matrix with the arrow keys. Click a cell to keep it selected.'}
    </p>
  );
}

function sentence({ input, result }: StepProps): string | undefined {
  const { query, key } = focus.current.value;
  const { scores, weights } = result.heads[headOf(result)]!;
  const name = query === undefined ? undefined : input.queryNames[query];
  const keyName = key === undefined ? undefined : input.keyNames[key];
  const column = key === undefined ? -1 : input.order.indexOf(key);
  if (query !== undefined && name && keyName && column >= 0) {
    const score = scores[query]![column]!;
    const share = weights[query]![column]!;
    if (result.mask[query]![column] === 0) return `“${name}” may not attend to “${keyName}”, so the weight is 0.`;
    return `Query “${name}”, key “${keyName}”: q · k = ${decimal(score)}; multiplied by ${decimal(result.scale)}, the score is ${decimal(score * result.scale)}; after the softmax, the weight is ${percent(share)}.`;
  }
  if (query !== undefined && name) {
    const ranked = weights[query]!.map((share, index) => ({ share, name: input.keyNames[input.order[index]!]! }))
      .filter(({ share }) => share > 0)
      .sort((a, b) => b.share - a.share);
    if (ranked.length === 0) return `“${name}” may not attend to any key, so its output is zero.`;
    return `“${name}” attends to ${ranked
      .slice(0, 4)
      .map((entry) => `“${entry.name}” (${percent(entry.share)})`)
      .join(', ')}.`;
  }
  if (keyName && column >= 0) {
    const queries = weights.map((row, index) => ({ share: row[column]!, name: input.queryNames[index]! }));
    return `The weight of “${keyName}” is ${queries.map((entry) => `${percent(entry.share)} for “${entry.name}”`).join(', ')}.`;
  }
  return undefined;
}
