#pragma once

/// Elementary functions in double precision, for tables that are computed once. In WebAssembly they call JavaScript's
/// Math, which is as accurate as libm and makes the download 3 KB smaller.
namespace heed::elementary {

double sin(double x);
double cos(double x);
double log(double x);
double pow(double base, double exponent);

}  // namespace heed::elementary
