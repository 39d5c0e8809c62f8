/** A classifier that came with a link: it labels texts here, and nothing is learned. */
import { effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Notice } from '../../../components/controls';
import { asFailure, type Failure } from '../../../engine/failure';
import { heed, inTurn, shipped, wanted } from '../../../engine/heed';
import { unpack } from '../../../engine/learning/shared';
import { latest } from '../../../state/latest';
import { sharedCode } from '../../code/encoder';
import { learningProgram, ownTest, sharedClassifier } from '../state';
import { Probabilities } from './probabilities';
import { testText } from './state';

type Result = { labels: string[]; probabilities: number[] };

const result = signal<Result | null>(null);
const failure = signal<Failure | null>(null);

const classify = latest(
  async ({ link, text }: { link: string; text: string }): Promise<Result | null> => {
    const { model } = shipped.peek()!;
    const { labels, weight, bias } = unpack(link, model.config.embedDim);
    if (text === '') return null;
    const vector = await inTurn(() => model.embed([text]));
    const calls = heed.peek()!;
    return { labels, probabilities: [...calls.softmax(calls.linear(vector, { weight, bias })).data] };
  },
  (found) => {
    failure.value = null;
    result.value = found;
  },
  (reason) => {
    result.value = null;
    failure.value = asFailure(reason);
  },
);

const follow = () =>
  effect(() => {
    const [link, text] = [sharedClassifier.value, testText.value.trim()];
    if (shipped.value && link) classify({ link, text });
  });

export function Shared() {
  useEffect(() => {
    wanted.value = true;
    learningProgram.value = () => (failure.value ? null : sharedCode(sharedClassifier.value, testText.value.trim()));
    const stop = follow();
    return () => {
      stop();
      learningProgram.value = null;
    };
  }, []);
  if (failure.value)
    return (
      <>
        <Notice kind="alert" title="The classifier in this link could not be read. ">
          {failure.value.message} Ask for the link again, or teach the model your own labels.
        </Notice>
        <Leave />
      </>
    );
  return (
    <section class="try" aria-labelledby="shared-title">
      <h2 id="shared-title">A classifier that was shared with you</h2>
      <p class="learn">
        The link holds what was learned, rounded to 8 bits, and the names of the labels; the examples are not in it.
        Your text stays in this tab.
      </p>
      <Leave />
      <label for="shared-text">Text to label</label>
      <input
        id="shared-text"
        type="text"
        autocomplete="off"
        value={testText.value}
        onInput={(event) => {
          ownTest.value = event.currentTarget.value;
        }}
      />
      {result.value ? (
        <Probabilities {...result.value} />
      ) : (
        !shipped.value && (
          <p class="waiting" role="status">
            The labels will appear here when the model has loaded.
          </p>
        )
      )}
    </section>
  );
}

function Leave() {
  return (
    <div class="buttons">
      <button
        type="button"
        onClick={() => {
          sharedClassifier.value = '';
        }}
      >
        Teach your own labels
      </button>
    </div>
  );
}
