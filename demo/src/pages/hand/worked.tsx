/** The arithmetic of each step for the focused query and key. */
import type { ComponentChildren } from 'preact';
import { decimal, percent } from '../../components/numbers';
import { maskedBy, type Rule } from '../../engine/hand';
import { focus } from './state';
import { headOf, type StepProps } from './step';

/** The focused query, or the first; the focused key, or the one with the query's largest weight. */
function focused({ input, result }: StepProps) {
  const { query: chosen = focus.pinned.value.query ?? 0, key } = focus.current.value;
  const query = Math.min(chosen, result.mask.length - 1);
  const shown = result.heads[headOf(result)]!;
  const weights = shown.weights[query]!;
  const index = key === undefined ? -1 : input.order.indexOf(key);
  const column = index >= 0 ? index : weights.indexOf(Math.max(...weights));
  const nameOf = (column: number) => input.keyNames[input.order[column]!]!;
  return { query, column, weights, shown, queryName: input.queryNames[query]!, keyName: nameOf(column), nameOf };
}

export function WorkedQuery({ input, result }: StepProps) {
  const { query, shown, queryName } = focused({ input, result });
  const width = shown.query[0]!.length;
  const first = headOf(result) * width;
  const terms = result.x[query]!.flatMap((entry, feature) =>
    entry === 0
      ? []
      : [
          <Term times={entry} key={feature}>
            <Vector of={input.queryWeight[feature]!.slice(first, first + width)} />
          </Term>,
        ],
  );
  return (
    <p>
      <b class="query">q</b> of “{queryName}” = <Sum of={terms} /> = <Vector part="query" of={shown.query[query]!} />
    </p>
  );
}

export function WorkedScore(props: StepProps) {
  const { query, column, shown, queryName, keyName } = focused(props);
  const key = shown.key[column]!;
  const terms = shown.query[query]!.map((entry, i) => (
    <span key={i}>
      <span class="query">{signed(entry)}</span> × <span class="key">{signed(key[i]!)}</span>
    </span>
  ));
  const score = shown.scores[query]![column]!;
  const { scale } = props.result;
  return (
    <p>
      “{queryName}” · “{keyName}” = <Sum of={terms} /> = {decimal(score)}; × {decimal(scale)} ={' '}
      <b>{decimal(score * scale)}</b>
    </p>
  );
}

const reasons: Record<Rule, string> = {
  padding: 'is padding',
  causal: 'comes later',
  window: 'is outside the window',
  painted: 'is masked by hand',
};

export function WorkedMask({ input, result }: StepProps) {
  const { query, column, queryName, keyName } = focused({ input, result });
  const rule = maskedBy(input, query, input.order[column]!);
  const row = result.mask[query]!;
  const allowed = row.filter(Boolean).length;
  return (
    <p>
      {rule
        ? `“${queryName}” may not attend to “${keyName}”, which ${reasons[rule]}.`
        : `“${queryName}” may attend to ${allowed === row.length ? `all ${allowed}` : `${allowed} of ${row.length}`} keys.`}
    </p>
  );
}

export function WorkedSoftmax({ input, result }: StepProps) {
  const { query, column, weights, shown, queryName, keyName } = focused({ input, result });
  const row = result.mask[query]!;
  const scaled = shown.scores[query]!.map((score) => score * result.scale);
  const power = (column: number) => (
    <span key={column}>
      e<sup>{decimal(scaled[column]!)}</sup>
    </span>
  );
  if (!row[column])
    return (
      <p>
        “{queryName}” to “{keyName}”: e<sup>−∞</sup> = <b>0</b>
      </p>
    );
  return (
    <p>
      {power(column)} ÷ (<Sum of={row.flatMap((allowed, key) => (allowed ? [power(key)] : []))} />) ={' '}
      <b>{decimal(weights[column]!)}</b>
    </p>
  );
}

/** Segments below this share get no label. */
const minLabelled = 0.15;

/** The output as a weighted sum of values, and the weights as a bar. */
export function WorkedMix({ input, result }: StepProps) {
  const { query, shown, queryName, nameOf } = focused({ input, result });
  const weights = (shown.dropped ?? shown.weights)[query]!;
  const total = weights.reduce((sum, share) => sum + share, 0);
  const largest = weights
    .map((share, column) => ({ share, column }))
    .filter(({ share }) => share > 0)
    .sort((a, b) => b.share - a.share);
  return (
    <>
      <p>
        <b>h</b> of “{queryName}” =
      </p>
      <ul class="addends">
        {largest.slice(0, shownTerms).map(({ share, column }) => (
          <li key={input.order[column]}>
            {decimal(share)} × <Vector part="value" of={shown.value[column]!} />
          </li>
        ))}
        {largest.length > shownTerms && <li>…</li>}
        <li class="total">
          <Vector of={shown.output[query]!} />
        </li>
      </ul>
      <div class="mix" aria-hidden="true">
        {weights.map((share, column) => (
          <span
            key={input.order[column]}
            style={{ '--share': total && share / total }}
            title={`${nameOf(column)} ${percent(share)}`}
          >
            {share > minLabelled * total && nameOf(column)}
          </span>
        ))}
      </div>
    </>
  );
}

const Term = ({ times, children }: { times: number; children: ComponentChildren }) => (
  <span>
    {signed(times)} × {children}
  </span>
);

/** Longer sums and vectors are abbreviated. */
const shownTerms = 4;

function Sum({ of }: { of: ComponentChildren[] }) {
  if (of.length === 0) return <>0</>;
  return (
    <>
      {of.slice(0, shownTerms).flatMap((term, i) => (i ? [' + ', term] : [term]))}
      {of.length > shownTerms && ' + …'}
    </>
  );
}

const Vector = ({ of, part }: { of: readonly number[]; part?: 'query' | 'value' }) => (
  <span class={`vector ${part ?? ''}`}>
    (
    {of
      .slice(0, shownTerms)
      .map((entry) => decimal(entry))
      .join(', ')}
    {of.length > shownTerms && ', …'})
  </span>
);

/** Negative numbers need parentheses in sums and products. */
const signed = (value: number): string => {
  const text = Number.isInteger(value) ? decimal(value, 0) : decimal(value);
  return value < 0 ? `(${text})` : text;
};
