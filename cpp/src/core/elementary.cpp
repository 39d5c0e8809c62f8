#include "core/elementary.h"

#if defined(__EMSCRIPTEN__)
#include <emscripten/em_js.h>

// clang-format off
EM_JS(double, heedSin, (double x), { return Math.sin(x); })
EM_JS(double, heedCos, (double x), { return Math.cos(x); })
EM_JS(double, heedLog, (double x), { return Math.log(x); })
EM_JS(double, heedPow, (double base, double exponent), { return base ** exponent; })
// clang-format on

namespace heed::elementary {

double sin(double x) { return heedSin(x); }
double cos(double x) { return heedCos(x); }
double log(double x) { return heedLog(x); }
double pow(double base, double exponent) { return heedPow(base, exponent); }

}  // namespace heed::elementary
#else
#include <cmath>

namespace heed::elementary {

double sin(double x) { return std::sin(x); }
double cos(double x) { return std::cos(x); }
double log(double x) { return std::log(x); }
double pow(double base, double exponent) { return std::pow(base, exponent); }

}  // namespace heed::elementary
#endif
