/** The page “Learning” is downloaded when it is first opened. */
import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import { RetryNotice } from '../../components/controls';
import { Waiting } from '../../components/waiting';
import { asFailure, type Failure } from '../../engine/failure';
import { ready } from '../../engine/heed';

const Page = signal<{ Content: FunctionComponent } | undefined>(undefined);
const failure = signal<Failure | undefined>(undefined);

function load(): void {
  failure.value = undefined;
  import('./learning').then(
    ({ LearningContent }) => {
      Page.value = { Content: LearningContent };
    },
    (reason: unknown) => {
      failure.value = asFailure(reason);
    },
  );
}

export function LearningPage() {
  useEffect(() => {
    if (!Page.peek()) load();
  }, []);
  const { Content } = Page.value ?? {};
  return (
    <>
      <header class="page-head">
        <h1>Learning</h1>
        <p class="lede">
          Watch attention learn a task, or teach the encoder your own labels. Training runs in this tab, in the
          background.
        </p>
      </header>
      {!ready.value && <Waiting what="The model" />}
      {ready.value && Content && <Content />}
      {failure.value && (
        <RetryNotice
          title="This page could not be loaded. "
          message={failure.value.message}
          retry={() => location.reload()}
        />
      )}
      {ready.value && !Content && !failure.value && (
        <p class="waiting" role="status">
          Loading the page …
        </p>
      )}
    </>
  );
}
