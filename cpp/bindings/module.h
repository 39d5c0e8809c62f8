#pragma once

#include <string>

#include "convert.h"
#include "heed/module.h"

namespace heed::bindings {

/// Implements RawModule: the base of every bound class that owns parameters. Subclasses register as
/// `class_<Bound, base<BoundModule>>`.
class BoundModule {
 public:
  virtual ~BoundModule() = default;
  virtual Module& module() = 0;
  /// The module that runs with these parameters.
  virtual const Module& runner() { return module(); }

  val parameters();
  val readParameter(unsigned index);
  /// Writes rows starting at `first_row`. `dtype` and `scales`: see core/encoded_rows.h.
  void writeParameter(unsigned index, double first_row, const val& bytes, const std::string& dtype, const val& scales);
  void setTraining(bool training) {
    guarded([&] { module().setTraining(training); });
  }
  void seed(const val& seed) {
    guarded([&] { module().seed(readSeed(seed)); });
  }
  /// Whether a call that uses these parameters is in progress, so that this is called from one of its callbacks.
  bool isRunning() { return RunScope::runs(runner()); }
  void initialize(const val& seed);

 protected:
  virtual Initialization initialization() const { return Initialization::kByLayer; }

 private:
  const Parameter& parameter(unsigned index);
  std::vector<Parameter> parameters_;  // listed on first use
};

}  // namespace heed::bindings
