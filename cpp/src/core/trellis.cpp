#include "core/trellis.h"

namespace heed {

void decodeTrellis(const uint8_t* row, int bits, Index width, float scale, const float* column_scales, uint16_t* states,
                   float* out) {
  const Index plane_bytes = trellisPlaneBytes(width);
  Index state = 0;
  for (Index k = 0; k < width; ++k) {
    if (states) state = states[k];
    Index q = 0;
    for (int b = 0; b < bits; ++b) q |= (row[b * plane_bytes + k / 8] >> (k % 8) & 1) << b;
    state = ((state << bits) | q) & (kTrellisStates - 1);
    if (states) states[k] = static_cast<uint16_t>(state);
    out[k] = scale * column_scales[k] * static_cast<float>(trellisLevel(state));
  }
}

}  // namespace heed
