/** The page “Learning” is downloaded when it is first opened. */
import { Choice } from '../../components/controls';
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { ready } from '../../engine/heed';
import { part } from './state';

const Content = lazy(() => import('./learning').then(({ LearningContent }) => LearningContent));

export function LearningPage() {
  return (
    <>
      <header class="page-head compact">
        <h1>Learning</h1>
        <div class="parts">
          <Choice
            label="Part"
            state={part}
            options={[
              ['tasks', 'Watch attention learn'],
              ['labels', 'Teach it your labels'],
            ]}
          />
        </div>
        <p class="lede">Training runs in this tab, in the background.</p>
      </header>
      {ready.value ? <Content /> : <Waiting what="The model" />}
    </>
  );
}
