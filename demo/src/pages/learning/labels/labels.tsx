/** The shipped model learns the reader's labels. */
import { batch } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CopyButton, Notice } from '../../../components/controls';
import { ownExamples, ownTest, sample } from '../state';
import { Editor } from './editor';
import { LeftOut } from './left-out';
import { TextMap } from './map';
import { samples } from './samples';
import {
  checked,
  chosenSample,
  download,
  failure,
  folderName,
  follow,
  result,
  retry,
  saving,
  unavailable,
} from './state';
import { TryIt } from './test';

export function Labels() {
  useEffect(follow, []);
  return (
    <>
      <Samples />
      {unavailable.value && (
        <Notice kind="alert" title="The model could not be loaded for learning. ">
          <p>{unavailable.value.message}</p>
          <p>
            <button type="button" onClick={retry}>
              Try again
            </button>
          </p>
        </Notice>
      )}
      {failure.value && (
        <Notice kind="alert" title="The examples could not be learned. ">
          {failure.value.message}
        </Notice>
      )}
      <div class="duo">
        <Editor />
        <div class="taught">
          <TryIt />
          {result.value ? (
            <>
              <LeftOut />
              <TextMap />
              <TakeAway />
            </>
          ) : (
            checked.value.missing === null &&
            !unavailable.value && (
              <p class="waiting" role="status">
                The result will appear here when the module for training and the model have loaded.
              </p>
            )
          )}
        </div>
      </div>
    </>
  );
}

function Samples() {
  const chosen = ownExamples.value ? undefined : chosenSample.value;
  return (
    <section class="examples" aria-label="Example sets">
      <div class="presets">
        {samples.map(({ id, name }) => (
          <button
            type="button"
            key={id}
            aria-pressed={id === chosen?.id}
            onClick={() =>
              batch(() => {
                sample.value = id;
                ownExamples.value = null;
                ownTest.value = null;
              })
            }
          >
            {name}
          </button>
        ))}
      </div>
      <p class="hint" aria-live="polite">
        {chosen?.notice ?? 'Write a text and its label in each row. A dozen examples are a good start.'}
      </p>
    </section>
  );
}

const code = `import { classify, load } from 'heed';

const heed = await load();
const model = await heed.fromPretrained('./${folderName}/');
const texts = ['A text to label.', 'Another one.'];
for (const [best] of await classify(model, texts)) {
  console.log(best.label, best.score.toFixed(2));
}
`;

function TakeAway() {
  return (
    <section aria-labelledby="take-title">
      <h2 id="take-title">Take it with you</h2>
      <p class="learn">The encoder with your labels, as a folder that heed opens. Your examples are not in it.</p>
      <div class="buttons">
        <button type="button" disabled={saving.value} onClick={() => void download()}>
          {saving.value ? 'Preparing …' : `Download ${folderName}.zip`}
        </button>
        <CopyButton label="Copy the code" text={() => code} />
      </div>
      <pre class="code">{code}</pre>
    </section>
  );
}
