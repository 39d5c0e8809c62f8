#pragma once

/// Elementary functions in double, for what is computed once at construction. In WebAssembly they are the engine's own,
/// JavaScript's Math, which is as exact and saves 3 KB of the download.
namespace heed::elementary {

double sin(double x);
double cos(double x);
double log(double x);
double pow(double base, double exponent);

}  // namespace heed::elementary
