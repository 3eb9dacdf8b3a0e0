#include "models/kernels/measured.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>

#include "models/base/libraries/format.hpp"
#include "models/kernels/backend.hpp"

namespace rookery {

namespace {

std::string text_of(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) {
        if constexpr (requires { value.begin(); } &&
                      !std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          return fmt::format("[{}]", fmt::join(value, ","));
        } else {
          return fmt::format("{}", value);
        }
      },
      attribute);
}

std::string text_of(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : " ") + type.to_string();
  return text;
}

// Two requests with the same key take the same time.
std::string key_of(const KernelRequest& request) {
  std::string key =
      fmt::format("{} ({}) -> ({})", request.op.type, text_of(request.inputs), text_of(request.outputs));
  for (const auto& [name, value] : request.op.attributes) {
    if (name != "forward") key += fmt::format(" {}={}", name, text_of(value));
  }
  return key;
}

// The time of this thread, so that other programs count as little as can be.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<Tensor> everyday_numbers(std::span<const TensorType> types) {
  std::vector<Tensor> tensors;
  for (const TensorType& type : types) {
    tensors.emplace_back(type);
    if (type.dtype != DType::kF32) continue;
    std::uint32_t state = 1;
    for (float& value : tensors.back().as<float>()) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
    }
  }
  return tensors;
}

}  // namespace

std::string measured_machine() {
  std::map<std::string, std::string> facts;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    facts[line.substr(0, line.find_last_not_of("\t ", colon - 1) + 1)] = line.substr(colon + 2);
  }
  std::string text;
  for (const char* fact : {"vendor_id", "model name", "cpu family", "model", "stepping"}) {
    if (facts.contains(fact)) text += fmt::format("{}{}", text.empty() ? "" : ", ", facts[fact]);
  }
  return fmt::format("{}; {}", text.empty() ? "unknown processor" : text, onednn_version());
}

double time_kernel(Kernel& kernel, const KernelRequest& request) {
  constexpr int kRuns = 5;
  constexpr double kEnoughSeconds = 0.2;  // after which two timed runs do
  const std::vector<Tensor> inputs = everyday_numbers(request.inputs);
  std::vector<Tensor> outputs = everyday_numbers(request.outputs);
  std::vector<ConstTensorView> input_views;
  std::vector<TensorView> output_views;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    input_views.push_back(request.op.inputs[i] == kNoValue ? ConstTensorView{} : inputs[i].view());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    output_views.push_back(request.op.outputs[i] == kNoValue ? TensorView{} : outputs[i].view());
  AlignedBuffer scratch(kernel.scratch_bytes());
  double best = std::numeric_limits<double>::infinity();
  const double all_begin = seconds_now();
  for (int run = 0; run <= kRuns; ++run) {
    const double begin = seconds_now();
    kernel.run(input_views, output_views, scratch.data(), {});
    if (run > 0) best = std::min(best, seconds_now() - begin);  // the first warms caches up
    if (run > 1 && seconds_now() - all_begin > kEnoughSeconds) break;
  }
  return best;
}

MeasuredKernels::MeasuredKernels(Known known, Timer timer)
    : known_(std::move(known)), timer_(std::move(timer)) {}

std::string MeasuredKernels::fastest(const KernelRequest& request, const std::vector<std::string>& choices) {
  std::vector<std::pair<std::string, std::unique_ptr<Kernel>>> kernels;
  for (const std::string& choice : choices) {
    if (auto kernel = describe_kernel_of(choice, request)) kernels.emplace_back(choice, std::move(kernel));
  }
  if (kernels.empty()) return choices.at(0);
  if (kernels.size() == 1) return kernels[0].first;
  const std::string key = key_of(request);
  if (const auto known = known_.find(key); known != known_.end()) {
    const auto serves = [&](const auto& kernel) { return kernel.first == known->second; };
    if (std::ranges::any_of(kernels, serves)) return known->second;
  }
  std::string best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [choice, kernel] : kernels) {
    kernel->prepare();
    const double seconds = timer_(*kernel, request);
    if (seconds >= least) continue;
    least = seconds;
    best = choice;
  }
  known_[key] = best;
  return best;
}

}  // namespace rookery
