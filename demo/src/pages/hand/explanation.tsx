/** Describes the focused cells in a sentence, which stays visible while the reader points at matrices. */
import type { Focus } from '../../components/focus';
import { decimal, percent } from '../../components/numbers';
import { Reserve } from '../../components/reserve';
import { canHover } from '../../state/device';
import { headOf, type StepProps, scaling, scoreDigits } from './shown';
import { focus } from './state';

export function Explanation({ input, result }: StepProps) {
  const describe = (focused: Focus) => sentence({ input, result }, focused);
  const all = () => {
    const queries = input.queryNames.map((_, query) => ({ query }));
    const keys = input.keyNames.map((_, key) => ({ key }));
    const pairs = queries.flatMap((query) => keys.map((key) => ({ ...query, ...key })));
    return [{}, ...queries, ...keys, ...pairs].map(describe);
  };
  return (
    <div class="explanation">
      <Reserve all={all} dependencies={[result, headOf(result)]}>
        <p role="status">{describe(focus.current.value)}</p>
      </Reserve>
    </div>
  );
}

function sentence({ input, result }: StepProps, { query, key }: Focus): string {
  const { scores, weights } = result.heads[headOf(result)]!;
  const name = query === undefined ? undefined : input.queryNames[query];
  const keyName = key === undefined ? undefined : input.keyNames[key];
  const column = key === undefined ? -1 : input.order.indexOf(key);
  if (query !== undefined && name && keyName && column >= 0) {
    const score = scores[query]![column]!;
    const share = weights[query]![column]!;
    if (result.mask[query]![column] === 0) return `“${name}” may not attend to “${keyName}”, so the weight is 0.`;
    const { word, by } = scaling({ input, result });
    return `Query “${name}”, key “${keyName}”: q · k = ${decimal(score, scoreDigits(score, result.scale))}; ${word} by ${by}, the score is ${decimal(score * result.scale)}; after the softmax, the weight is ${percent(share)}.`;
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
  return canHover
    ? 'Point at a cell, or move through a matrix with the arrow keys. Click a cell or press Enter to keep it selected.'
    : 'Tap a cell of a matrix.';
}
