/**
 * Whether the pointer was moved. Browsers also report a pointer at rest, when what is below it changes: a page that opens there should not react to it.
 */
let last: { x: number; y: number } | undefined;
let isMovement = false;

export function followPointer(): void {
  addEventListener(
    'pointermove',
    (event) => {
      const { screenX: x, screenY: y } = event;
      isMovement = last ? x !== last.x || y !== last.y : event.movementX !== 0 || event.movementY !== 0;
      last = { x, y };
    },
    { capture: true },
  );
}

/** Whether this `pointermove` event, or the touch of a finger or a pen, is the reader's. */
export const hasMoved = ({ pointerType }: PointerEvent): boolean => pointerType !== 'mouse' || isMovement;
