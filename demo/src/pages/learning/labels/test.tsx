/** A sentence to try, and the probability of each label. */
import { Notice } from '../../../components/controls';
import { decimal, milliseconds, percent, plural } from '../../../components/numbers';
import type { Explanation } from '../../../engine/learning/classifier';
import { series } from '../../text/projection';
import { ownTest } from '../state';
import { explained, result, testText } from './state';

export function TryIt() {
  const current = result.value;
  const tested = current?.test?.tested;
  return (
    <section class="try" aria-labelledby="try-title">
      <h2 id="try-title">
        <label for="try">Try a text</label>
      </h2>
      <input
        id="try"
        type="text"
        autocomplete="off"
        value={testText.value}
        onInput={(event) => {
          ownTest.value = event.currentTarget.value;
        }}
      />
      {current && tested && (
        <ol class="probabilities" aria-label="Probability of each label">
          {current.taught.labels.map((label, i) => (
            <li key={label} class={i === tested.label ? 'best' : ''}>
              <span>
                <span class="swatch" style={{ background: series[i % series.length] }} /> {label}
              </span>
              <span class="track">
                <span
                  class="filled"
                  style={{ '--share': tested.probabilities[i]!, '--colour': series[i % series.length]! }}
                />
              </span>
              <span class="score">{percent(tested.probabilities[i]!)}</span>
            </li>
          ))}
        </ol>
      )}
      {tested?.isUnknown && (
        <Notice>Nothing in this text is in the model’s vocabulary: the probabilities are a guess.</Notice>
      )}
      {tested && explained.value?.of === tested && <Tokens {...explained.value.explanation} />}
      <p class="unseen" role="status">
        {current && tested && `${current.taught.labels[tested.label]}, ${percent(tested.probabilities[tested.label]!)}`}
      </p>
      {current && (
        <p class="timing">
          learned from {plural(current.examples.length, 'example')} in {milliseconds(current.taught.training)}, after
          embedding new ones in {milliseconds(current.taught.embedding)}
        </p>
      )}
    </section>
  );
}

/** Gradient × input of each token, as a colour and a number. */
function Tokens({ label, tokens, scores }: Explanation) {
  const name = result.value!.taught.labels[label];
  const most = Math.max(1e-9, ...scores.map(Math.abs));
  return (
    <>
      <h3>Which tokens mattered</h3>
      <ol class="mattered" aria-label={`How much each token speaks for “${name}”`}>
        {tokens.map((token, i) => (
          <li key={i} class={scores[i]! < 0 ? 'against' : ''} style={{ '--heat': Math.abs(scores[i]!) / most }}>
            <span>{token}</span> <small>{decimal(scores[i]!)}</small>
          </li>
        ))}
      </ol>
      <p class="facts">Gradient × input: positive (orange) speaks for “{name}”, negative (blue) against it.</p>
    </>
  );
}
