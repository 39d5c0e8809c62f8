/** What the focused cells say, in a sentence. It stays in view while one points at matrices. */
import { decimal, percent } from '../../components/numbers';
import { focus } from './state';
import { headOf, type StepProps } from './step';

export function Explanation({ input, result }: StepProps) {
  return (
    <p class="explanation" role="status">
      {sentence({ input, result }) ??
        'Point at a cell, or move through a matrix with the arrow keys; a click keeps it.'}
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
    if (result.mask[query]![column] === 0) return `“${name}” may not look at “${keyName}”: its weight is 0.`;
    return `“${name}” asks, “${keyName}” answers: q · k = ${decimal(score)}, times ${decimal(result.scale)} is ${decimal(score * result.scale)}; the softmax makes it ${percent(share)} of the mix.`;
  }
  if (query !== undefined && name) {
    const ranked = weights[query]!.map((share, place) => ({ share, name: input.keyNames[input.order[place]!]! }))
      .filter(({ share }) => share > 0)
      .sort((a, b) => b.share - a.share);
    if (ranked.length === 0) return `“${name}” may look at nothing: its output is zero.`;
    return `“${name}” takes ${ranked
      .slice(0, 4)
      .map((entry) => `${percent(entry.share)} of “${entry.name}”`)
      .join(', ')}.`;
  }
  if (keyName && column >= 0) {
    const asked = weights.map((row, place) => ({ share: row[column]!, name: input.queryNames[place]! }));
    return `“${keyName}” is taken by ${asked.map((entry) => `“${entry.name}” at ${percent(entry.share)}`).join(', ')}.`;
  }
  return undefined;
}
