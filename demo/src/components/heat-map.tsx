/** Attention weights as a picture: one pixel per pair of tokens, scaled up by the browser. */
import { useEffect, useRef } from 'preact/hooks';
import { heatColour } from '../state/theme';

interface HeatProps {
  /** (length, length), row-major, 0 to 1. */
  weights: Float32Array;
  length: number;
  /** Names the picture; without one it is decoration. */
  label?: string;
}

/** Most weights are small; the root brings them up to where the eye sees differences. */
const gamma = 0.6;

export function HeatMap({ weights, length, label }: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    const image = context.createImageData(length, length);
    const [red, green, blue] = heatColour.value;
    for (let i = 0; i < length * length; i++) {
      image.data.set([red, green, blue, 255 * weights[i]! ** gamma], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }, [weights, length, heatColour.value]);
  return (
    <canvas
      ref={canvas}
      class="heat"
      width={length}
      height={length}
      {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })}
    />
  );
}
