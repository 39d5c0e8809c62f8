/** The arithmetic of each step for the focused query and key. Numbers have as many digits as it takes for the arithmetic to hold. */
import type { ComponentChildren, FunctionComponent } from 'preact';
import { agrees, decimal, digitsFor, percent, precise } from '../../components/numbers';
import { Reserve } from '../../components/reserve';
import { maskedBy, type Rule } from '../../engine/hand';
import { headOf, type StepProps, scaling, scoreDigits } from './shown';
import { focus } from './state';

/** A query, and the column of a key. */
interface At {
  query: number;
  column: number;
}
export type Arithmetic = FunctionComponent<StepProps & { at: At }>;

/** Shows `of` for the focused query, or the first; and the focused key, or the one with the query's largest weight. */
export function Worked({ of: Shown, ...props }: StepProps & { of: Arithmetic }) {
  const { input, result } = props;
  const { query: chosen = focus.pinned.value.query ?? 0, key } = focus.current.value;
  const query = Math.min(chosen, result.mask.length - 1);
  const weights = result.heads[headOf(result)]!.weights[query]!;
  const index = key === undefined ? -1 : input.order.indexOf(key);
  const column = index >= 0 ? index : weights.indexOf(Math.max(...weights));
  const all = () =>
    result.mask.flatMap((row, query) =>
      row
        .slice(0, withoutKey.has(Shown) ? 1 : row.length)
        .map((_, column) => <Shown key={0} {...props} at={{ query, column }} />),
    );
  return (
    <div class="worked">
      <Reserve all={all} dependencies={[Shown, result, headOf(result)]}>
        <Shown {...props} at={{ query, column }} />
      </Reserve>
    </div>
  );
}

function namesOf({ input }: StepProps, { query, column }: At) {
  const nameOf = (column: number) => input.keyNames[input.order[column]!]!;
  return { queryName: input.queryNames[query]!, keyName: nameOf(column), nameOf };
}

/** Longer sums and vectors are abbreviated. */
const shownTerms = 4;
const total = (terms: number[]) => terms.reduce((sum, term) => sum + term, 0);

export const WorkedQuery: Arithmetic = ({ at, ...props }) => {
  const { input, result } = props;
  const query = result.heads[headOf(result)]!.query[at.query]!;
  const first = headOf(result) * query.length;
  const weights = input.queryWeight.map((row) => row.slice(first, first + query.length));
  const entries = result.x[at.query]!;
  const digits = digitsFor((rounded) =>
    query.every((sum, j) => agrees(total(entries.map((entry, i) => rounded(entry) * rounded(weights[i]![j]!))), sum)),
  );
  const terms = entries.flatMap((entry, feature) =>
    entry === 0
      ? []
      : [
          <span key={feature}>
            {signed(entry, digits)} × <Vector of={weights[feature]!} digits={digits} />
          </span>,
        ],
  );
  return (
    <p>
      <b class="query">q</b> of “{namesOf(props, at).queryName}” = <Sum of={terms} /> ={' '}
      <Vector part="query" of={query} />
    </p>
  );
};

export const WorkedScore: Arithmetic = ({ at, ...props }) => {
  const { queryName, keyName } = namesOf(props, at);
  const { scale, heads } = props.result;
  const { query, key, scores } = heads[headOf(props.result)]!;
  const [left, right] = [query[at.query]!, key[at.column]!];
  const score = scores[at.query]![at.column]!;
  const sumDigits = scoreDigits(score, scale);
  const digits = digitsFor((rounded) =>
    agrees(total(left.map((entry, i) => rounded(entry) * rounded(right[i]!))), score, sumDigits),
  );
  const terms = left.map((entry, i) => (
    <span key={i}>
      <span class="query">{signed(entry, digits)}</span> × <span class="key">{signed(right[i]!, digits)}</span>
    </span>
  ));
  const { sign, by } = scaling(props);
  return (
    <p>
      “{queryName}” · “{keyName}” = <Sum of={terms} /> = {decimal(score, sumDigits)}; {sign} {by} ={' '}
      <b>{decimal(score * scale)}</b>
    </p>
  );
};

const reasons: Record<Rule, string> = {
  padding: 'is padding',
  causal: 'comes later',
  window: 'is outside the window',
  painted: 'is masked by hand',
};

export const WorkedMask: Arithmetic = ({ at, ...props }) => {
  const { queryName, keyName } = namesOf(props, at);
  const { input, result } = props;
  const rule = maskedBy(input, at.query, input.order[at.column]!);
  const row = result.mask[at.query]!;
  const allowed = row.filter(Boolean).length;
  return (
    <p>
      {rule
        ? `“${queryName}” may not attend to “${keyName}”, which ${reasons[rule]}.`
        : `“${queryName}” may attend to ${allowed === row.length ? `all ${allowed}` : `${allowed} of ${row.length}`} keys.`}
    </p>
  );
};

export const WorkedSoftmax: Arithmetic = ({ at, ...props }) => {
  const { queryName, keyName } = namesOf(props, at);
  const { result } = props;
  const { scores, weights } = result.heads[headOf(result)]!;
  const row = result.mask[at.query]!;
  if (!row[at.column])
    return (
      <p>
        “{queryName}” to “{keyName}”: e<sup>−∞</sup> = <b>0</b>
      </p>
    );
  const scaled = scores[at.query]!.map((score) => score * result.scale);
  const keys = row.flatMap((allowed, key) => (allowed ? [key] : []));
  const weight = weights[at.query]![at.column]!;
  const digits = digitsFor((rounded) => {
    const power = (key: number) => Math.exp(rounded(scaled[key]!));
    return agrees(power(at.column) / total(keys.map(power)), weight);
  });
  const power = (key: number) => (
    <span key={key}>
      e<sup>{precise(scaled[key]!, digits)}</sup>
    </span>
  );
  return (
    <p>
      {power(at.column)} ÷ (<Sum of={keys.map(power)} />) = <b>{decimal(weight)}</b>
    </p>
  );
};

/** Segments below this share get no label. */
const minLabelled = 0.15;

/** The output as a weighted sum of values, and the weights as a bar. */
export const WorkedMix: Arithmetic = ({ at, ...props }) => {
  const { queryName, nameOf } = namesOf(props, at);
  const { input, result } = props;
  const { value, output, ...head } = result.heads[headOf(result)]!;
  const weights = (head.dropped ?? head.weights)[at.query]!;
  const sum = total(weights);
  const digits = digitsFor((rounded) =>
    output[at.query]!.every((entry, j) =>
      agrees(total(weights.map((share, column) => rounded(share) * rounded(value[column]![j]!))), entry),
    ),
  );
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
            {precise(share, digits)} × <Vector part="value" of={value[column]!} digits={digits} />
          </li>
        ))}
        {largest.length > shownTerms && <li>…</li>}
        <li class="total">
          <Vector of={output[at.query]!} />
        </li>
      </ul>
      <div class="mix" aria-hidden="true">
        {weights.map((share, column) => (
          <span
            key={input.order[column]}
            style={{ '--share': sum && share / sum }}
            title={`${nameOf(column)} ${percent(share)}`}
          >
            {share > minLabelled * sum && nameOf(column)}
          </span>
        ))}
      </div>
    </>
  );
};

/** Arithmetic that is the same for all keys. */
const withoutKey = new Set([WorkedQuery, WorkedMix]);

function Sum({ of }: { of: ComponentChildren[] }) {
  if (of.length === 0) return <>0</>;
  return (
    <>
      {of.slice(0, shownTerms).flatMap((term, i) => (i ? [' + ', term] : [term]))}
      {of.length > shownTerms && ' + …'}
    </>
  );
}

interface VectorProps {
  of: readonly number[];
  part?: 'query' | 'value';
  digits?: number;
}

const Vector = ({ of, part, digits = 2 }: VectorProps) => (
  <span class={`vector ${part ?? ''}`}>
    (
    {of
      .slice(0, shownTerms)
      .map((entry) => precise(entry, digits))
      .join(', ')}
    {of.length > shownTerms && ', …'})
  </span>
);

/** Negative numbers need parentheses in sums and products. */
const signed = (value: number, digits: number): string => {
  const text = Number.isInteger(value) ? decimal(value, 0) : precise(value, digits);
  return value < 0 ? `(${text})` : text;
};
