/** The settings of the page “Compute”. */
import { computed, type Signal } from '@preact/signals';
import { Choice, Slider, Stepper, Toggle } from '../../components/controls';
import { decimal, percent } from '../../components/numbers';
import { shuffled, uniform } from '../../engine/random';
import { hand, input, limits, setWords } from './state';

export function Settings() {
  const keys = input.value.order.length;
  const shuffle = () => {
    hand.order.value = shuffled(keys, uniform(Date.now()));
  };
  const renew = () => {
    for (const weight of [hand.queryWeight, hand.keyWeight, hand.valueWeight, hand.outputWeight]) weight.value = null;
    hand.seed.value = (hand.seed.value + 1) % 10000;
  };
  return (
    <details class="settings" open={wide}>
      <summary>Settings</summary>
      <section aria-label="Sequence">
        <h2>Sequence</h2>
        <label class="field">
          Words
          <input
            type="text"
            autocomplete="off"
            spellcheck={false}
            maxLength={120}
            value={hand.words.value.join(' ')}
            onChange={(event) => setWords(event.currentTarget.value.split(/\s+/).filter(Boolean))}
          />
        </label>
        <Choice
          label="Positions"
          state={hand.positions}
          options={[
            ['none', 'none'],
            ['add', 'added'],
            ['concat', 'appended'],
          ]}
        />
        {hand.positions.value !== 'none' && (
          <Slider
            label="Base"
            min={1}
            max={5}
            step={0.1}
            value={Math.log10(hand.base.value)}
            shown={String(hand.base.value)}
            onChange={(power) => {
              hand.base.value = Math.max(2, Math.round(10 ** power));
            }}
          />
        )}
        <Toggle label="Layer norm" state={hand.layerNorm} hint="mean 0 and variance 1 per row" />
        <div class="buttons">
          <button type="button" onClick={shuffle}>
            Shuffle keys and values
          </button>
          {hand.order.value && (
            <button type="button" onClick={() => (hand.order.value = null)}>
              Restore the order
            </button>
          )}
        </div>
      </section>
      <section aria-label="Heads">
        <h2>Heads</h2>
        {(
          [
            ['Heads', hand.heads, limits.heads],
            ['Head width', hand.width, limits.width],
          ] as const
        ).map(([label, state, max]) => (
          <Stepper
            key={label}
            label={label}
            min={1}
            max={max}
            value={state.value}
            onChange={(value) => (state.value = value)}
          />
        ))}
        <div class="buttons">
          <button type="button" onClick={renew}>
            New random weights
          </button>
        </div>
      </section>
      <section aria-label="Scores and mask">
        <h2>Scores and mask</h2>
        <Slider
          label="Scale"
          min={0}
          max={4}
          step={0.05}
          value={hand.scale.value ?? 1 / Math.sqrt(hand.width.value)}
          shown={decimal(hand.scale.value ?? 1 / Math.sqrt(hand.width.value))}
          onChange={(value) => {
            hand.scale.value = value;
          }}
        />
        <Slider
          label="Padding"
          min={0}
          max={keys}
          value={Math.min(keys, hand.padding.value)}
          shown={`${Math.min(keys, hand.padding.value)} of ${keys} keys`}
          onChange={(value) => {
            hand.padding.value = value;
          }}
        />
        <Toggle label="Window" state={windowed} hint="nearby keys only" />
        {hand.window.value !== null && (
          <Slider
            label="Radius"
            min={0}
            max={keys - 1}
            value={hand.window.value}
            onChange={(value) => {
              hand.window.value = value;
            }}
          />
        )}
      </section>
      <section aria-label="Dropout">
        <h2>Dropout</h2>
        <Slider
          label="Rate p"
          min={0}
          max={0.9}
          step={0.05}
          value={hand.dropout.value}
          shown={percent(hand.dropout.value)}
          onChange={(value) => {
            hand.dropout.value = value;
          }}
        />
        {hand.dropout.value > 0 && (
          <div class="buttons">
            <button type="button" onClick={() => (hand.draw.value = (hand.draw.value % 9999) + 1)}>
              Draw again
            </button>
          </div>
        )}
      </section>
    </details>
  );
}

/** On a phone the settings are collapsed. */
const wide = matchMedia('(min-width: 60rem)').matches;

/** A boolean signal for a setting that is null in one of its states. */
function switchOf(isOn: () => boolean, set: (on: boolean) => void): Signal<boolean> {
  const state = computed(isOn);
  return {
    get value() {
      return state.value;
    },
    set value(on: boolean) {
      set(on);
    },
  } as Signal<boolean>;
}

export const scaled = switchOf(
  () => hand.scale.value === null,
  (on) => {
    hand.scale.value = on ? null : 1;
  },
);
const windowed = switchOf(
  () => hand.window.value !== null,
  (on) => {
    hand.window.value = on ? 1 : null;
  },
);
