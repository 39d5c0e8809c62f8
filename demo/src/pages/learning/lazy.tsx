/** The pages “Watch it learn” and “Teach it” are downloaded when they are first opened. */
import type { ComponentChildren, FunctionComponent } from 'preact';
import { CourseChapter } from '../../components/course-chapter';
import { lazy } from '../../components/lazy';
import { Waiting } from '../../components/waiting';
import { ready } from '../../engine/heed';

const content = (name: 'Lesson' | 'Labels') => lazy(() => import('./learning').then((parts) => parts[name]));
const Lesson = content('Lesson');
const Labels = content('Labels');

const page = (title: string, lede: ComponentChildren, Content: FunctionComponent) =>
  function LearningPage() {
    return (
      <>
        <header class="page-head compact">
          <h1>{title}</h1>
          <p class="lede">{lede}</p>
        </header>
        {ready.value ? <Content /> : <Waiting what="The model" />}
      </>
    );
  };

export const LearnPage = page(
  'Watch it learn',
  <>
    A small transformer, built as in <CourseChapter of="11-encoder" />, learns a task in this tab: watch its attention
    weights.
  </>,
  Lesson,
);
export const TeachPage = page(
  'Teach it',
  'Write a few texts with your labels: the encoder in this tab learns them while you type.',
  Labels,
);
