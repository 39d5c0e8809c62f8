/** Parts of the page that are downloaded when they are needed. */
import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import { online } from '../offline/offline';
import { RetryNotice } from './controls';

/** The component that `load` downloads, when it is first shown. */
export function lazy(load: () => Promise<FunctionComponent>): FunctionComponent {
  const loaded = signal<{ Content: FunctionComponent } | undefined>(undefined);
  const hasFailed = signal(false);
  const start = () =>
    load().then(
      (Content) => {
        loaded.value = { Content };
      },
      () => {
        hasFailed.value = true;
      },
    );
  return function Lazy() {
    useEffect(() => {
      if (!loaded.peek()) void start();
    }, []);
    useEffect(() => {
      if (!hasFailed.value) return undefined;
      const again = () => location.reload();
      addEventListener('online', again);
      return () => removeEventListener('online', again);
    }, [hasFailed.value]);
    const { Content } = loaded.value ?? {};
    if (Content) return <Content />;
    if (hasFailed.value)
      return (
        <RetryNotice
          title="This page could not be loaded. "
          message={
            online.value
              ? 'Parts of it could not be downloaded. Check your connection to the network, then try again.'
              : 'You are offline, and this page is downloaded when it is first opened. Connect to the network, then try again.'
          }
          retry={() => location.reload()}
        />
      );
    return (
      <p class="waiting" role="status">
        Loading the page …
      </p>
    );
  };
}
