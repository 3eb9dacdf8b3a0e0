// clusterize: reads node_configs.json and train.json, forms clusters, and writes what the providers
// need.

#include <optional>

#include "clusterize/list_models.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "clusterize/plan_report.hpp"
#include "clusterize/planner/choices/choose_averaging.hpp"
#include "clusterize/planner/choices/choose_schedule.hpp"
#include "clusterize/planner/choices/fewer_stages.hpp"
#include "clusterize/planner/plan_id.hpp"
#include "clusterize/planner/write_plan.hpp"
#include "clusterize/pool/pool_changes.hpp"
#include "clusterize/profile/kernel_choices.hpp"
#include "clusterize/provider_symlinks.hpp"
#include "clusterize/report/mixed_samples.hpp"
#include "clusterize/report/small_statistics.hpp"
#include "clusterize/search_arguments.hpp"
#include "clusterize/task/make_task.hpp"
#include "clusterize/task/resume.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/terminal.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/state_file.hpp"
#include "models/zoo/open_model.hpp"
#include "models/zoo/zoo.hpp"
#include "trainer/checkpoint/checkpoint_bucket.hpp"
#include "trainer/storage/place.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxSeed = (std::int64_t{1} << 53) - 1;  // what JSON carries without loss

int list_models(const ProgramArguments& arguments) {
  const auto batch_size = arguments["batch-size"].as<std::int64_t>();
  if (batch_size < 1 || batch_size > kMaxBatch)
    throw UsageError(fmt::format("--batch-size {}: must be from 1 to {}", batch_size, kMaxBatch));
  const std::vector<ModelFigures> models = zoo_figures(batch_size);
  if (arguments.count("json") != 0) {
    fmt::print("{}\n", to_json(models, batch_size).dump(2));
  } else {
    fmt::print("{}", describe_models(models, batch_size));
  }
  return kDone;
}

// What --resume names, if it is given; a checkpoint in a bucket is here as long as `far`.
std::optional<std::string> resume_name(const ProgramArguments& arguments,
                                       std::optional<FetchedCheckpoint>& far) {
  if (arguments.count("resume") == 0) return std::nullopt;
  const auto name = arguments["resume"].as<std::string>();
  if (!is_address(name)) return name;
  return with_context("--resume", [&] { return far.emplace(name).folder().string(); });
}

TrainingSettings settings_of(const ProgramArguments& arguments, const std::filesystem::path& node_data,
                             const std::optional<std::string>& resumed) {
  TrainingSettings settings = read_settings(node_data / "train.json");
  if (arguments.count("seed") != 0) {
    const auto seed = arguments["seed"].as<std::int64_t>();
    if (seed < 0 || seed > kMaxSeed)
      throw UsageError(fmt::format("--seed {}: must be from 0 to {}", seed, kMaxSeed));
    settings.seed = static_cast<std::uint64_t>(seed);
  }
  if (arguments.count("model") != 0) {
    settings.model = model_name_in(node_data, arguments["model"].as<std::string>());
    try {
      open_model(settings.model, node_data);
    } catch (const ConfigError& error) {
      throw UsageError(fmt::format("--model: {}", error.what()));
    }
  }
  take_staleness(arguments, settings);
  if (resumed) with_context("--resume", [&] { keep_micro_batches(settings, node_data, *resumed); });
  return settings;
}

void link_providers(const ClusterPlan& plan, bool quiet) {
  const ProviderSymlinks links =
      make_provider_symlinks(program_folder(), std::filesystem::current_path(), machine_ids(plan));
  if (!links.problem.empty())
    fmt::print(stderr, "clusterize: no provider_N links: {}; use {} --name node_N\n", links.problem,
               links.provider);
  if (!quiet) fmt::print("{}\n", how_to_start(links));
}

// What training starts from: the weights of --init; else those of the model's file, and what that lacks is
// drawn from the seed.
StateDict first_state(const ProgramArguments& arguments, TrainingTask& task) {
  if (arguments.count("init") == 0) {
    if (!task.model_weights.empty()) task.weights = weights_digest(task.model_weights);
    return initial_state(task.graph, task.settings.seed, std::move(task.model_weights));
  }
  const std::filesystem::path path = arguments["init"].as<std::string>();
  StateDict state = read_state_file(path).tensors;
  remove_reference_extras(task.settings.model, state);
  with_context(path.string(), [&] { remove_extras(task.module, task.model_extras, state); });
  for (const auto& [second, first] : second_names(task.graph, state)) {
    state.erase(second);
    task.settings.tied.emplace(second, first);
  }
  with_context(path.string(), [&] { check_state(task.graph, state); });
  task.weights = weights_digest(state);
  return state;
}

// What the plan takes over from a run; nothing where it begins one.
std::optional<Resumption> resume(const ProgramArguments& arguments, const std::optional<std::string>& name,
                                 TrainingTask& task, const std::filesystem::path& node_data) {
  if (!name) return std::nullopt;
  if (arguments.count("init") != 0)
    throw UsageError("--init and --resume: a run that goes on has its weights; give one of both");
  return with_context("--resume", [&] { return resume_task(task, node_data, *name); });
}

void check_inputs(const std::filesystem::path& node_data) {
  if (!std::filesystem::exists(node_data / "node_configs.json")) {
    throw ConfigError(fmt::format(
        "{}: there is no node_configs.json: call clusterize where the folder node_data is, or give its place "
        "with --node-data DIR",
        node_data.string()));
  }
  if (!std::filesystem::exists(node_data / "train.json")) {
    throw ConfigError(fmt::format(
        "{}: there is no train.json: write one, e.g. {{\"model\": \"cnn_net\", \"data\": \"digits\", "
        "\"epochs\": 100}}",
        node_data.string()));
  }
}

void tell_kept(const std::filesystem::path& node_data, const std::filesystem::path& kept) {
  fmt::print(stderr,
             "clusterize: what was trained with the plan before is kept in {0}: model_fusion --node-data {0} "
             "fuses it; {1} has the new plan\n",
             kept.string(), node_data.string());
}

NodePool without_excluded(const NodePool& pool, const std::set<std::string>& excluded) {
  try {
    return pool.without(excluded);
  } catch (const ConfigError& error) {
    throw UsageError(fmt::format("--exclude: {}", error.what()));
  }
}

int clusterize(const ProgramArguments& arguments) {
  if (arguments.count("list-models") != 0) return list_models(arguments);
  const std::filesystem::path node_data = arguments["node-data"].as<std::string>();
  const bool json = arguments.count("json") != 0;
  check_inputs(node_data);
  const FileLock planning = lock_for_planning(
      node_data, [](const std::string& text) { fmt::print(stderr, "clusterize: {}\n", text); });
  const std::filesystem::path node_configs = node_data / "node_configs.json";
  const NodePool all = NodePool::read(node_configs);
  const std::set<std::string> excluded = excluded_nodes(arguments);
  const NodePool pool = without_excluded(all, excluded).with_threads(usable_processors());
  std::optional<FetchedCheckpoint> far;
  const std::optional<std::string> resume_from = resume_name(arguments, far);
  const TrainingSettings settings = settings_of(arguments, node_data, resume_from);
  SearchOptions options = search_options(arguments, pool, settings.seed);
  const PlanReportOptions tells = plan_report_options(arguments, node_data, settings.seed);
  const std::filesystem::path choices = kernel_choices_path(node_data);
  const std::string machine = measured_machine();
  MeasuredKernels measured(read_kernel_choices(choices, machine));
  TrainingTask task = with_context((node_data / "train.json").string(),
                                   [&] { return make_task(settings, node_data, &measured); });
  const auto warn = [&](const std::string& warning) {
    fmt::print(stderr, "clusterize: {}: {}\n", task.settings.model, warning);
  };
  for (const std::string& warning : task.warnings) warn(warning);
  const std::optional<ScheduleChoice> schedule =
      with_context(node_configs.string(), [&] { return choose_schedule(task, pool, options, &measured); });
  if (schedule && options.seconds) *options.seconds /= 2;
  write_kernel_choices(choices, machine, measured.known());
  const std::optional<Resumption> resumed = resume(arguments, resume_from, task, node_data);
  add_profile(task, node_data, arguments.count("profile") != 0, pool.all_threads());
  const StateDict state = first_state(arguments, task);
  Planned planned =
      with_context(node_configs.string(), [&] { return plan_with_averaging(task, pool, options); });
  planned.plan.schedule_choice = schedule;
  if (resumed) with_context("--resume", [&] { check_place(resumed->run, task, planned.plan); });
  const std::vector<std::optional<std::string>> warnings{small_statistics(task, planned.plan),
                                                         mixed_samples(task, planned.plan),
                                                         fewer_stages(task, pool, options, planned)};
  for (const std::string& id : excluded)
    planned.plan.left_out.push_back({"node_" + id, "excluded by --exclude"});
  PlanReport told =
      report_plan({task, with_threads_of(read_json(node_configs), pool), excluded, options}, planned, tells);
  const bool is_there = holds_plan(node_data, planned.plan);
  std::vector<std::filesystem::path> kept;
  if (!is_there) kept = write_plan(node_data, task, planned, state);
  put_in_place(told);
  without_live_lines([&] {
    for (const std::filesystem::path& place : kept) tell_kept(node_data, place);
    for (const std::string& line : resumed ? resumed->lines : std::vector<std::string>())
      fmt::print(json ? stderr : stdout, "{}\n", line);
    fmt::print("{}", json ? told.json : told.text);
    for (const auto& warning : warnings)
      if (warning) warn(*warning);
    if (is_there && !json)
      fmt::print("{} holds this plan already: nothing was changed there but its pictures.\n",
                 node_data.string());
  });
  link_providers(planned.plan, json);
  return kDone;
}

}  // namespace

int clusterize_main(int argc, char** argv) {
  let_teams_sleep(argv);
  ProgramOptions options;
  options.add_options()("node-data",
                        po::value<std::string>()->value_name("DIR")->default_value("./node_data"),
                        "folder with node_configs.json and train.json; the plan is written there");
  options.add_options()("seed", po::value<std::int64_t>()->value_name("N"),
                        "random seed, instead of the one in train.json");
  options.add_options()("model", po::value<std::string>()->value_name("NAME"),
                        "model, instead of the one in train.json: a name of --list-models, or an .onnx file");
  options.add_options()("init", po::value<std::string>()->value_name("FILE"),
                        "initial weights, instead of random ones: a state dict, .pt or .safetensors");
  options.add_options()(
      "resume", po::value<std::string>()->implicit_value("")->value_name("STEP|FOLDER|ADDRESS"),
      "go on with a run from its checkpoint, on the machines and with the settings that there are "
      "now: from the newest that is whole, that of this step, that in this folder, or the newest below this "
      "address of a bucket, s3://bucket/runs/digits");
  options.add_options()("profile",
                        "time every operator of the model on this machine, with as many threads as the nodes "
                        "have and this machine has processors, for better predictions; the times are kept in "
                        "op_profile.json");
  options.add_options()("list-models", "list models with their sizes, costs and options, then exit");
  options.add_options()("batch-size", po::value<std::int64_t>()->value_name("N")->default_value(32),
                        "batch size for which --list-models shows the memory");
  add_search_options(options);
  add_plan_report_options(options);
  options.add_options()("json", "print the plan as JSON; with --list-models, the models");
  const ProgramInfo info{
      .name = "clusterize",
      .summary =
          "Groups the machines of node_configs.json into clusters, cuts the model of train.json into one "
          "stage per machine, and writes the files that the providers read. For large convolutions it "
          "measures which kernel is fastest on this machine, and keeps that in kernel_choices.json so that "
          "later plans use the same kernels.",
      .example =
          "  clusterize\n  clusterize --node-data my_pool --seed 7 --objective throughput\n"
          "  clusterize --init weights.pt\n"
          "  clusterize --resume && launch\n"
          "  clusterize --explain --svg plan.svg --gantt step.svg\n"
          "  clusterize --simulate --epochs 10 --stragglers 0.05:3 --failures 0.01"};
  return run_program(info, options, argc, argv, clusterize);
}

}  // namespace rookery
