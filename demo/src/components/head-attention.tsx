/** The attention weights of one head, with a heading and the choice of the view. */
import type { Signal } from '@preact/signals';
import { Choice } from './controls';
import { HeatMap } from './heat-map';
import { TokenAttention, type TokenAttentionProps } from './token-attention';

interface HeadAttentionProps extends Omit<TokenAttentionProps, 'heatMap'> {
  layer: number;
  head: number;
  view: Signal<'lines' | 'map'>;
}

export const HeadAttention = ({ layer, head, view, ...rest }: HeadAttentionProps) => (
  <div>
    <div class="bar">
      <h3>
        Layer {layer + 1}, head {head + 1}
      </h3>
      <Choice
        label="View"
        state={view}
        options={[
          ['lines', 'lines'],
          ['map', 'heat map'],
        ]}
      />
    </div>
    <TokenAttention heatMap={view.value === 'map' ? HeatMap : undefined} {...rest} />
  </div>
);
