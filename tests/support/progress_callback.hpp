// An observer of a run that is a function.
#pragma once

#include <functional>
#include <utility>

#include "trainer/progress/run_log.hpp"

namespace rookery {

// Calls one function after every update and every validation.
class ProgressCallback : public RunLog {
 public:
  using Function = std::function<void(const Progress&)>;
  explicit ProgressCallback(Function function) : function_(std::move(function)) {}
  void after_update(const Progress& progress, const BatchResult& /*batch*/) override { function_(progress); }
  void after_validation(const Progress& progress, const BatchResult& /*total*/) override {
    function_(progress);
  }

 private:
  Function function_;
};

}  // namespace rookery
