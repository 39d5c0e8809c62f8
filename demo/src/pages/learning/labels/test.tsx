/** A sentence to try, and the probability of each label. */
import { Notice } from '../../../components/controls';
import { decimal, milliseconds, plural } from '../../../components/numbers';
import type { Explanation } from '../../../engine/learning/classifier';
import { ownTest } from '../state';
import { Probabilities } from './probabilities';
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
      {current && tested && <Probabilities labels={current.taught.labels} probabilities={tested.probabilities} />}
      {tested?.isUnknown && (
        <Notice>Nothing in this text is in the model’s vocabulary: the probabilities are a guess.</Notice>
      )}
      {current && tested && (
        <Tokens
          name={current.taught.labels[tested.label]!}
          text={current.test!.text}
          found={explained.value?.of === tested ? explained.value.explanation : null}
        />
      )}
      {current && (
        <p class="timing">
          learned from {plural(current.examples.length, 'example')} in {milliseconds(current.taught.training)}, after
          embedding new ones in {milliseconds(current.taught.embedding)}
        </p>
      )}
    </section>
  );
}

/** Gradient × input of each token, as a colour and a number. Until it is known, the words of the text keep its place. */
function Tokens({ name, text, found }: { name: string; text: string; found: Explanation | null }) {
  const { tokens, scores } = found ?? { tokens: ['[CLS]', ...text.split(/\s+/), '[SEP]'], scores: [] };
  const most = Math.max(1e-9, ...scores.map(Math.abs));
  return (
    <>
      <h3>Which tokens mattered</h3>
      <ol
        class="mattered"
        aria-label={`How much each token contributes to “${name}”`}
        aria-hidden={found ? undefined : true}
      >
        {tokens.map((token, i) => {
          const score = scores[i];
          return (
            <li key={i} class={(score ?? 0) < 0 ? 'against' : ''} style={{ '--heat': Math.abs(score ?? 0) / most }}>
              <span>{token}</span> <small>{score === undefined ? '−0.00' : decimal(score)}</small>
            </li>
          );
        })}
      </ol>
      <p class="facts">Gradient × input: positive (orange) raises the score of “{name}”, negative (blue) lowers it.</p>
    </>
  );
}
