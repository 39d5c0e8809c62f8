/** The steps' arithmetic in numbers, for the query and the key in focus: what a reader would do with a pencil. */
import type { ComponentChildren } from 'preact';
import { decimal, percent } from '../../components/numbers';
import { forbiddenBy, type Rule } from '../../engine/hand';
import { focus } from './state';
import { headOf, type StepProps } from './step';

/** The focused query, or the first; the focused key, or the one that this query takes most of. */
function placeOf({ input, result }: StepProps) {
  const { query: asked = focus.pinned.value.query ?? 0, key } = focus.current.value;
  const query = Math.min(asked, result.mask.length - 1);
  const shown = result.heads[headOf(result)]!;
  const weights = shown.weights[query]!;
  const focused = key === undefined ? -1 : input.order.indexOf(key);
  const column = focused >= 0 ? focused : weights.indexOf(Math.max(...weights));
  const nameOf = (place: number) => input.keyNames[input.order[place]!]!;
  return { query, column, weights, shown, asker: input.queryNames[query]!, answerer: nameOf(column), nameOf };
}

export function WorkedQuery({ input, result }: StepProps) {
  const { query, shown, asker } = placeOf({ input, result });
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
      <b class="query">q</b> of “{asker}” = <Sum of={terms} /> = <Vector part="query" of={shown.query[query]!} />
    </p>
  );
}

export function WorkedScore(props: StepProps) {
  const { query, column, shown, asker, answerer } = placeOf(props);
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
      “{asker}” · “{answerer}” = <Sum of={terms} /> = {decimal(score)}; × {decimal(scale)} ={' '}
      <b>{decimal(score * scale)}</b>
    </p>
  );
}

const because: Record<Rule, string> = {
  padding: 'is padding',
  causal: 'comes later',
  window: 'is outside the window',
  painted: 'is painted out',
};

export function WorkedMask({ input, result }: StepProps) {
  const { query, column, asker, answerer } = placeOf({ input, result });
  const rule = forbiddenBy(input, query, input.order[column]!);
  const row = result.mask[query]!;
  const allowed = row.filter(Boolean).length;
  return (
    <p>
      {rule
        ? `“${asker}” may not look at “${answerer}”, which ${because[rule]}.`
        : `“${asker}” may look at ${allowed === row.length ? `all ${allowed}` : `${allowed} of ${row.length}`}.`}
    </p>
  );
}

export function WorkedSoftmax({ input, result }: StepProps) {
  const { query, column, weights, shown, asker, answerer } = placeOf({ input, result });
  const row = result.mask[query]!;
  const scaled = shown.scores[query]!.map((score) => score * result.scale);
  const power = (place: number) => (
    <span key={place}>
      e<sup>{decimal(scaled[place]!)}</sup>
    </span>
  );
  if (!row[column])
    return (
      <p>
        “{asker}” to “{answerer}”: e<sup>−∞</sup> = <b>0</b>
      </p>
    );
  return (
    <p>
      {power(column)} ÷ (<Sum of={row.flatMap((may, place) => (may ? [power(place)] : []))} />) ={' '}
      <b>{decimal(weights[column]!)}</b>
    </p>
  );
}

/** A smaller share of the bar has no room for its name. */
const leastNamed = 0.15;

/** The output as a sum of values, and as a bar of what it is mixed from. */
export function WorkedMix({ input, result }: StepProps) {
  const { query, shown, asker, nameOf } = placeOf({ input, result });
  const taken = (shown.dropped ?? shown.weights)[query]!;
  const total = taken.reduce((sum, share) => sum + share, 0);
  const largest = taken
    .map((share, place) => ({ share, place }))
    .filter(({ share }) => share > 0)
    .sort((a, b) => b.share - a.share);
  return (
    <>
      <p>
        <b>h</b> of “{asker}” =
      </p>
      <ul class="addends">
        {largest.slice(0, shownTerms).map(({ share, place }) => (
          <li key={input.order[place]}>
            {decimal(share)} × <Vector part="value" of={shown.value[place]!} />
          </li>
        ))}
        {largest.length > shownTerms && <li>…</li>}
        <li class="total">
          <Vector of={shown.output[query]!} />
        </li>
      </ul>
      <div class="mix" aria-hidden="true">
        {taken.map((share, place) => (
          <span
            key={input.order[place]}
            style={{ '--share': total && share / total }}
            title={`${nameOf(place)} ${percent(share)}`}
          >
            {share > leastNamed * total && nameOf(place)}
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

/** Beyond so many terms or entries a line would be read by nobody. */
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

/** In a sum or a product a negative number wants brackets. */
const signed = (value: number): string => {
  const text = Number.isInteger(value) ? decimal(value, 0) : decimal(value);
  return value < 0 ? `(${text})` : text;
};
