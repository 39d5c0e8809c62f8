/** A sentence to try, and the probability of each label. */
import { milliseconds, percent, plural } from '../../../components/numbers';
import { series } from '../../text/projection';
import { ownTest } from '../state';
import { result, testText } from './state';

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
