/** The attention weights of a sentence: all heads of all layers, and one of them large. */
import { moveInRows } from '../../components/arrow-keys';
import { Notice } from '../../components/controls';
import { HeadAttention } from '../../components/head-attention';
import { HeatMap } from '../../components/heat-map';
import { milliseconds, plural, short } from '../../components/numbers';
import type { AttentionView } from '../../engine/views';
import { SentencesBox } from '../sentences/box';
import { texts, within } from '../sentences/state';
import { attention, large, sentence, token, view } from './state';

export function Attention() {
  const current = attention.value;
  return (
    <div class="inside-heads">
      <div>
        <SentencesBox />
        {current && texts.value.length > 0 && <AllHeads {...current} />}
      </div>
      {current && texts.value.length > 0 && <LargeHead {...current} />}
    </div>
  );
}

function AllHeads(current: AttentionView) {
  const length = current.tokens.length;
  return (
    <section aria-labelledby="heads">
      <h2 id="heads">All heads</h2>
      {texts.value.length > 1 && (
        <label class="field inline">
          Sentence
          <select
            value={within(sentence.value, texts.value.length)}
            onChange={(event) => (sentence.value = Number(event.currentTarget.value))}
          >
            {texts.value.map((line, i) => (
              <option key={i} value={i}>
                {i + 1}. {short(line)}
              </option>
            ))}
          </select>
        </label>
      )}
      {current.notShown > 0 && (
        <Notice>
          Only the first {length} tokens are shown; {current.notShown} more were computed.
        </Notice>
      )}
      <HeadGrid view={current} />
      <p class="timing">
        {plural(length, 'token')} through {plural(current.weights.length, 'layer')} in{' '}
        {milliseconds(current.milliseconds)}
      </p>
    </section>
  );
}

function LargeHead({ tokens, weights }: AttentionView) {
  const l = within(large.value.layer, weights.length);
  const h = within(large.value.head, weights[l]!.length);
  return (
    <section aria-label="The selected head">
      <p class="learn">
        Each head computes its own attention weights: one row per query, one column per key; stronger colours are larger
        weights. Select a head to enlarge it.
      </p>
      <HeadAttention layer={l} head={h} view={view} tokens={tokens} weights={weights[l]![h]!} pinned={token} />
    </section>
  );
}

function HeadGrid({ view }: { view: AttentionView }) {
  return (
    <fieldset
      class="head-grid"
      aria-label="Heads of every layer; arrow keys move between them"
      onKeyDown={(event) => moveInRows(event, '.head-row')}
    >
      {view.weights.map((heads, l) => (
        <div class="head-row" key={l} style={{ '--heads': heads.length }}>
          <span class="layer-name">Layer {l + 1}</span>
          {heads.map((weights, h) => {
            const chosen =
              l === within(large.value.layer, view.weights.length) && h === within(large.value.head, heads.length);
            return (
              <div class="head" key={h}>
                <button
                  type="button"
                  tabIndex={chosen ? 0 : -1}
                  aria-pressed={chosen}
                  aria-label={`Show layer ${l + 1}, head ${h + 1}`}
                  onClick={() => {
                    large.value = { layer: l, head: h };
                  }}
                >
                  <HeatMap weights={weights} length={view.tokens.length} />
                </button>
              </div>
            );
          })}
        </div>
      ))}
    </fieldset>
  );
}
