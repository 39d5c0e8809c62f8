/** The shipped model learns the reader's labels. */
import { batch } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CopyButton, Notice } from '../../../components/controls';
import { Examples } from '../../../components/examples';
import { Failed } from '../../../components/failed';
import { recipe } from '../../../engine/learning/examples';
import { pack } from '../../../engine/learning/shared';
import { labelsCode } from '../../code/encoder';
import { learningProgram, ownExamples, ownTest, sample, sharedClassifier } from '../state';
import { Editor } from './editor';
import { LeftOut } from './left-out';
import { TextMap } from './map';
import { samples } from './samples';
import { Shared } from './shared';
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
  testText,
  unavailable,
} from './state';
import { TryIt } from './test';

export const Labels = () => (sharedClassifier.value ? <Shared /> : <Teach />);

function Teach() {
  useEffect(follow, []);
  useEffect(() => {
    learningProgram.value = () => labelsCode(checked.value.usable, testText.value.trim(), recipe);
    return () => {
      learningProgram.value = null;
    };
  }, []);
  return (
    <>
      <Examples
        label="Example sets"
        examples={samples}
        chosen={ownExamples.value ? undefined : chosenSample.value.id}
        choose={({ id }) =>
          batch(() => {
            sample.value = id;
            ownExamples.value = null;
            ownTest.value = null;
          })
        }
        otherwise="Write a text and its label in each row. A dozen examples are a good start."
      />
      {unavailable.value && (
        <Failed
          what="The model"
          title="The model could not be loaded for learning. "
          of={unavailable.value}
          retry={retry}
        />
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

const code = `import { classify, load } from 'heed';

const heed = await load();
const model = await heed.fromPretrained('./${folderName}/');
const texts = ['A text to label.', 'Another one.'];
for (const [best] of await classify(model, texts)) {
  console.log(best.label, best.score.toFixed(2));
}
`;

/** The address of this page with a classifier. */
function linkTo(classifier: string, test: string): string {
  const url = new URL(location.href);
  url.hash = `teach?${new URLSearchParams({ classifier, test })}`;
  return url.href;
}

function TakeAway() {
  const { taught } = result.value!;
  const text = pack({ labels: taught.labels, ...taught.classifier });
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
      <h3>Share it</h3>
      <p class="learn">
        {text === null
          ? `A link can hold about 10 labels, and you have ${taught.labels.length}: send the folder instead.`
          : 'A link holds the labels and what was learned, not your examples; whoever opens it has the same classifier.'}{' '}
        To use the folder, unzip it and open it on “Meaning”.
      </p>
      <div class="buttons">
        <CopyButton
          label="Copy a link with the classifier"
          disabled={text === null}
          text={() => linkTo(text!, testText.peek())}
        />
      </div>
    </section>
  );
}
