/** The page “Learning” is downloaded when it is first opened. */
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { ready } from '../../engine/heed';

const Content = lazy(() => import('./learning').then(({ LearningContent }) => LearningContent));

export function LearningPage() {
  return (
    <>
      <header class="page-head">
        <h1>Learning</h1>
        <p class="lede">
          Watch attention learn a task, or teach the encoder your own labels. Training runs in this tab, in the
          background.
        </p>
      </header>
      {ready.value ? <Content /> : <Waiting what="The model" />}
    </>
  );
}
