/** A sentence whose tokens rise through the layers: ribbons for what the chosen token attends to, and the words that are nearest to it beside each layer. */
import type { Signal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { percent } from '../../components/numbers';
import { isWord } from '../../engine/senses';
import { hasMoved } from '../../state/pointer';
import { alone, choose, everyLayer, layer, layers, off, pictures, pointed, rowOf, type View, views } from './state';

interface StageProps {
  /** The index of the sentence. */
  of: number;
  sentence: Signal<string>;
  meaning: string | undefined;
  /** Opens “Compute” with the weight of a ribbon. */
  compute: (number: number, key: number) => void;
}

/** The height of a layer in the drawing's units. */
const step = 100;
/** The width of the drawing. */
const across = 1000;
/** The width of a ribbon of weight 1, in pixels. */
const ribbonWidth = 34;
/** The opacity of a ribbon; the smallest weights have none. */
export const opacityOf = (share: number) => (share < 0.02 ? 0 : 0.55 + 0.45 * share);
const yOf = (number: number) => (layers - number + 0.5) * step;

/** Where the tokens stand, by the lengths of their names. */
function placesOf(tokens: readonly string[]) {
  const widths = tokens.map((token) => Math.max(2.2, (isWord(token) ? 1 : 0.7) * token.length) + 1.3);
  const total = widths.reduce((sum, width) => sum + width, 0);
  let left = 0;
  const centers = widths.map((width) => {
    left += width;
    return (across * (left - width / 2)) / total;
  });
  return { widths, total, centers };
}

export function Stage({ of, sentence, meaning, compute }: StageProps) {
  const view = views[of]!.value;
  const { trace, at, words, isOutdated } = view;
  const { tokens } = trace;
  const { widths, total, centers } = placesOf(tokens);
  const shares = rowOf(view, Math.max(1, layer.value));
  const id = useId();
  const point = (token: number | null) => {
    if (pointed.peek()?.sentence === of ? pointed.peek()!.token === token : token === null) return;
    pointed.value = token === null ? null : { sentence: of, token };
  };
  return (
    <section class={`side ${isOutdated ? 'outdated' : ''}`} aria-label={of === 0 ? 'One sentence' : 'Another sentence'}>
      <Outcome view={view} />
      <div class={`rise ${(centers[at] ?? 0) > across / 2 ? 'mirrored' : ''}`}>
        <div class="lanes">
          {/* Not a custom property, which all ribbons would inherit. */}
          <div style={{ minWidth: `${0.4 * total}rem` }}>
            <svg viewBox={`0 0 ${across} ${step * (layers + 1)}`} preserveAspectRatio="none" aria-hidden="true">
              <Ribbons of={of} compute={compute} />
            </svg>
            <fieldset
              class="row-of-tokens"
              aria-label={`The tokens of the ${of === 0 ? 'first' : 'second'} sentence; the one that is chosen is followed`}
              style={{ gridTemplateColumns: widths.map((each) => `minmax(0, ${each}fr)`).join(' ') }}
              onPointerLeave={() => point(null)}
            >
              {tokens.map((token, i) => (
                <button
                  type="button"
                  key={i}
                  class={`weighted ${i === at ? 'query' : ''} ${isWord(token) ? '' : 'mark'}`}
                  style={{ '--share': shares?.[i] ?? 0 }}
                  aria-pressed={i === at}
                  disabled={!isWord(token) || isOutdated}
                  onPointerMove={(event) => event.pointerType === 'mouse' && hasMoved(event) && point(i)}
                  onClick={() => choose(of, i)}
                >
                  {token} <small>{shares ? percent(shares[i]!) : '–'}</small>
                </button>
              ))}
            </fieldset>
          </div>
        </div>
        <ol class="path" aria-label={`The words nearest to “${tokens[at] ?? ''}”, from the last layer to the first`}>
          {[...everyLayer, 0]
            .sort((a, b) => b - a)
            .map((number) => (
              <Words key={number} number={number} words={words?.[number]} />
            ))}
        </ol>
      </div>
      <label class="field" for={id}>
        <span>
          {of === 0 ? 'One sentence' : 'Another sentence'}
          {meaning && `: ${meaning}`}
        </span>
        <input
          id={id}
          type="text"
          autocomplete="off"
          spellcheck={false}
          maxLength={160}
          value={sentence.value}
          onInput={(event) => {
            alone.value = null;
            pointed.value = null;
            sentence.value = event.currentTarget.value;
          }}
        />
      </label>
    </section>
  );
}

/** What the token has become, in the layer up to which it has risen. */
function Outcome({ view: { trace, at, words } }: { view: View }) {
  const found = words?.[layer.value];
  return (
    <p class="outcome">
      <small>
        “{trace.tokens[at] ?? '…'}”{' '}
        {layer.value === layers ? 'ends' : layer.value === 0 ? 'begins' : `in layer ${layer.value} is`} near
      </small>{' '}
      <strong key={found?.[0] ?? ''}>{found?.[0] ?? '…'}</strong>
      {found && `, ${found.slice(1).join(', ')}`}
    </p>
  );
}

/** The words beside a layer; the tokens rise up to it when it is chosen. */
function Words({ number, words }: { number: number; words: readonly string[] | undefined }) {
  const isAbove = number > layer.value;
  return (
    <li class={`${isAbove ? 'above' : ''} ${off.value.includes(number) ? 'off' : ''}`}>
      <button
        type="button"
        aria-pressed={number === layer.value}
        onClick={() => {
          layer.value = number;
        }}
      >
        <span>{number === 0 ? 'input' : `layer ${number}`}</span>{' '}
        <span class="near">
          <b key={words?.[0] ?? ''}>{words?.[0] ?? '…'}</b> {words?.slice(1).join(' ')}
        </span>
      </button>
    </li>
  );
}

function Ribbons({ of, compute }: Pick<StageProps, 'of' | 'compute'>) {
  const { at, trace, layer, rows, isOpen } = pictures[of]!.value;
  const { centers } = placesOf(trace.tokens);
  const x = centers[at] ?? 0;
  return (
    <>
      {everyLayer.map((number) => {
        const row = rows[number - 1];
        const [low, high] = [yOf(number - 1), yOf(number)];
        const middle = (low + high) / 2;
        return (
          <g key={number} class={number > layer ? 'above' : ''}>
            {centers.map((from, to) => {
              const share = row?.[to] ?? 0;
              const d = `M ${from} ${low} C ${from} ${middle} ${x} ${middle} ${x} ${high}`;
              return (
                // biome-ignore lint/a11y/noStaticElementInteractions: the keyboard has “Compute this weight by hand”
                <path
                  key={to}
                  class={`ribbon ${isWord(trace.tokens[to]!) ? '' : 'rest'} ${isOpen && share > 0 ? 'open' : ''}`}
                  style={{
                    d: `path("${d}")`,
                    strokeWidth: `${(share * ribbonWidth).toFixed(1)}px`,
                    opacity: opacityOf(share),
                  }}
                  d={d}
                  onClick={() => isOpen && share > 0 && compute(number, to)}
                >
                  <title>{`layer ${number}: ${percent(share)} to “${trace.tokens[to]}”`}</title>
                </path>
              );
            })}
          </g>
        );
      })}
      {[0, ...everyLayer].map((number) => (
        <path
          key={number}
          class={`knots ${number > layer ? 'above' : ''}`}
          d={centers.map((center) => `M ${center} ${yOf(number)} h 0.01`).join(' ')}
        />
      ))}
      {at >= 0 && (
        <>
          <path
            class="stem"
            style={{ d: `path("M ${x} ${yOf(0) + step / 2} V ${yOf(layer)}")` }}
            d={`M ${x} ${yOf(0) + step / 2} V ${yOf(layer)}`}
          />
          <path class="tip" style={{ d: `path("M ${x} ${yOf(layer)} h 0.01")` }} d={`M ${x} ${yOf(layer)} h 0.01`} />
        </>
      )}
    </>
  );
}
