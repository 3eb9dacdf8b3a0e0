// What checkpoints cost: how much slower training is that writes one in every so many seconds, and how long
// loading one takes against reading its file.
//
//   checkpoint_cost [--model NAME] [--batch N] [--seconds S] [--rounds N] [--folder DIR]
//
// One stage holds the whole model and trains on computed sentences. Windows of S seconds follow each other,
// one with a checkpoint at its beginning after one without; a round's ratio is the steps a second of the
// former by those of the latter. Then the checkpoint is loaded and its file read into as much memory, in
// alternation: from the page cache, and from the disk. Exits with 1 when a bar is missed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/task/make_task.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/threads.hpp"
#include "trainer/checkpoint/checkpointer.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

constexpr double kThroughputBar = 0.97;
constexpr double kLoadingBar = 1.3;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

bool tell(const std::string& what, const std::vector<double>& ratios, double bar, bool is_least) {
  const double value = median(ratios);
  const bool is_reached = is_least ? value >= bar : value <= bar;
  const auto [least, most] = std::ranges::minmax(ratios);
  fmt::print("{}: {:.3f} ({:.3f}-{:.3f}), bar {}: {}\n", what, value, least, most, bar,
             is_reached ? "PASS" : "BELOW BAR");
  std::fflush(stdout);
  return is_reached;
}

struct Enough {};  // ends the training

// Measures windows between steps, and writes a checkpoint at the beginning of every second one.
class Windows {
 public:
  Windows(CheckpointOwner owner, CheckpointFacts facts, Executable& executable, double seconds, int rounds)
      : facts_(std::move(facts)),
        executable_(executable),
        writer_(std::move(owner)),
        seconds_(seconds),
        rounds_(rounds) {}

  // TrainerOptions::between_steps.
  void between_steps(const RunState& run) {
    ++steps_;
    if (begin_ && seconds_since(*begin_) < seconds_) return;
    if (begin_) note();
    begin_ = Clock::now();
    steps_ = 0;
    facts_.run = run;
    if (rates_.size() % 2 == 1) writer_.write_beside(facts_, executable_.training_state());
  }

  const std::vector<double>& ratios() const { return ratios_; }

 private:
  void note() {
    if (is_warm_) rates_.push_back(static_cast<double>(steps_) / seconds_since(*begin_));
    // The first copy takes its memory: once in a run, before it is measured.
    if (!std::exchange(is_warm_, true)) writer_.write_beside(facts_, executable_.training_state());
    writer_.finish();
    if (rates_.empty() || rates_.size() % 2 == 1) return;
    ratios_.push_back(rates_.back() / rates_[rates_.size() - 2]);
    fmt::print("{:.3f} steps a second, with a checkpoint {:.3f}\n", rates_[rates_.size() - 2], rates_.back());
    std::fflush(stdout);
    if (static_cast<int>(ratios_.size()) == rounds_) throw Enough();
  }

  CheckpointFacts facts_;
  Executable& executable_;
  CheckpointWriter writer_;
  const double seconds_;
  const int rounds_;
  std::optional<Clock::time_point> begin_;
  int steps_ = 0;
  bool is_warm_ = false;
  std::vector<double> rates_, ratios_;
};

double read_seconds(const std::filesystem::path& path) {
  static std::vector<char> bytes(std::filesystem::file_size(path));
  const auto begin = Clock::now();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t at = 0;
  for (ssize_t got = 1; got > 0; at += static_cast<std::size_t>(got))
    got = ::read(file, bytes.data() + at, std::min<std::size_t>(1U << 20, bytes.size() - at));
  ::close(file);
  return seconds_since(begin);
}

double load_seconds(const std::filesystem::path& path, Executable& executable) {
  const auto begin = Clock::now();
  PartReader part(path);
  load_part(part, executable);
  return seconds_since(begin);
}

void forget(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

bool measure_loading(const std::filesystem::path& path, Executable& executable, int rounds) {
  bool is_reached = true;
  for (const bool is_cached : {true, false}) {
    std::vector<double> ratios;
    for (int round = -1; round < rounds; ++round) {
      if (!is_cached) forget(path);
      const double load = load_seconds(path, executable);
      if (!is_cached) forget(path);
      const double read = read_seconds(path);
      if (round >= 0) ratios.push_back(load / read);
      if (round == 0) fmt::print("loading {:.3f} s, reading {:.3f} s\n", load, read);
    }
    is_reached &= tell(is_cached ? "loading by reading, cached" : "loading by reading, from the disk", ratios,
                       kLoadingBar, false);
  }
  return is_reached;
}

int measure(const ProgramArguments& arguments) {
  const std::filesystem::path folder = arguments["folder"].as<std::string>();
  const int rounds = arguments["rounds"].as<int>();
  set_kernel_threads(1);
  TrainingSettings settings;
  settings.model = arguments["model"].as<std::string>();
  settings.data = "masked_words?length=128";
  settings.loss = loss_from_text(
      R"([{"output": "prediction_logits", "loss": {"name": "cross_entropy", "ignore_index": -100}},
    {"output": "seq_relationship_logits", "loss": "cross_entropy", "target": "next_sentence_label"}])");
  settings.batch_size = arguments["batch"].as<std::int64_t>();
  settings.epochs = 1000;
  const TrainingTask task = make_task(settings, folder);
  const Stage stage = cut(task.graph, std::vector<OpId>{0}).front();
  Executable executable(stage, compile_options(settings, task.data, 0, 1, task.kernels),
                        initial_state(task.graph, 1));
  const auto dataset = open_dataset(settings.data, folder);
  const auto link = std::move(make_memory_links(1, std::chrono::milliseconds(0)).front());
  const CheckpointOwner owner{.node_data = folder, .plan_id = "0123456789abcdef", .stage = 0, .stages = 1};
  Windows windows(owner, {.run = {}, .settings = settings, .kernels = task.kernels}, executable,
                  arguments["seconds"].as<double>(), rounds);
  Trainer trainer(
      executable, *link, dataset.get(),
      {.settings = settings,
       .data = task.data,
       .logs = {},
       .from = {},
       .between_steps = [&](const RunState& run, bool /*is_end*/) { windows.between_steps(run); }});
  try {
    trainer.run();
  } catch (const Enough&) {
  }
  bool is_reached =
      tell("throughput with checkpoints by that without", windows.ratios(), kThroughputBar, true);
  const std::filesystem::path path = part_path(owner, part_steps(owner).back());
  fmt::print("{}: {:.2f} GB\n", settings.model, static_cast<double>(std::filesystem::file_size(path)) / 1e9);
  is_reached &= measure_loading(path, executable, rounds);
  std::filesystem::remove_all(checkpoints_folder(folder));
  return is_reached ? kDone : kFailed;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{.name = "checkpoint_cost",
                                  .summary = "Measures what writing and loading checkpoints costs.",
                                  .example = "  checkpoint_cost --seconds 30 --rounds 5"};
  rookery::ProgramOptions options("Options");
  options.add_options()("model", po::value<std::string>()->default_value("bert"), "a bert of the zoo")(
      "batch", po::value<std::int64_t>()->default_value(4), "samples a step")(
      "seconds", po::value<double>()->default_value(30), "from one checkpoint to the next")(
      "rounds", po::value<int>()->default_value(5), "of two windows each")(
      "folder", po::value<std::string>()->default_value("."), "on the disk that is written to");
  return rookery::run_program(info, options, argc, argv, rookery::measure);
}
