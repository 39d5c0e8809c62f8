/** Says that a part of the page could not be loaded, in every place that needs it: in a visitor's words, with a button that tries again. */
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Failure } from '../engine/failure';
import { online } from '../offline/offline';
import { Notice } from './controls';

interface FailedProps {
  /** What failed, such as “The model”. */
  what: string;
  /** A title in its place. */
  title?: string;
  of: Failure;
  retry: () => void;
  /** While it is tried again, the notice stays, and with it the focus. */
  isTrying?: boolean;
}

export function Failed({ what, title = `${what} could not be loaded. `, of, retry, isTrying = false }: FailedProps) {
  const notice = useRef<HTMLDivElement>(null);
  // The focus goes on from what has appeared in place of the button.
  useLayoutEffect(
    () => () => {
      if (notice.current?.contains(document.activeElement))
        queueMicrotask(() => document.querySelector('main')?.focus({ preventScroll: true }));
    },
    [],
  );
  return (
    <div ref={notice}>
      <Notice kind="alert" title={title}>
        <p>
          {online.value
            ? 'A file could not be downloaded, or is damaged. Check your connection to the network, then try again.'
            : 'You are offline. It is tried again when you are connected to the network.'}
        </p>
        <p>
          <button
            type="button"
            aria-disabled={isTrying}
            onClick={() => {
              if (!isTrying) retry();
            }}
          >
            {isTrying ? 'Trying again …' : 'Try again'}
          </button>
        </p>
        <p class="facts">Reported: {of.message}</p>
      </Notice>
    </div>
  );
}
