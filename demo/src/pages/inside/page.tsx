/** What happens inside an encoder: its heads, its hidden states, and the lens, which changes them. */
import '../../styles/panels.css';
import { Choice, Notice } from '../../components/controls';
import { Waiting } from '../../components/waiting';
import { shipped } from '../../engine/heed';
import { completeState } from '../../state/url';
import { ModelChoice, readsText, source } from '../model/choice';
import { followModel } from '../model/state';
import { SentencesBox } from '../sentences/box';
import { followSentences, texts } from '../sentences/state';
import { Attention } from './heads';
import { Lens } from './lens/page';
import { Projection } from './projection';
import { failure, followInside, part } from './state';

completeState('inside');
followModel();
followSentences();
followInside();

export function InsidePage() {
  return (
    <>
      <header class="page-head compact">
        <h1>Inside</h1>
        <p class="lede">
          Look into an encoder: what each head attends to, how layers move words, and what changes if you interfere.
        </p>
      </header>
      <div class="inside-choices">
        <ModelChoice />
        {source.value !== 'trained' && (
          <Choice
            label="Show"
            state={part}
            options={[
              ['heads', 'heads'],
              ['states', 'hidden states'],
              ['lens', 'lens'],
            ]}
          />
        )}
      </div>
      <Content />
    </>
  );
}

function Content() {
  if (source.value === 'trained' || part.value === 'lens') return <Lens />;
  if (source.value === 'own' && !readsText.value) return null;
  return (
    <>
      {failure.value && (
        <Notice kind="alert" title="The model could not process this text. ">
          {failure.value.message}
        </Notice>
      )}
      {part.value === 'heads' ? <Attention /> : <States />}
      {source.value === 'bundled' && !shipped.value && <Waiting what="The attention weights" progress />}
    </>
  );
}

const States = () => (
  <>
    <SentencesBox />
    {texts.value.length > 0 && <Projection />}
  </>
);
