// Plans the five published pools by the published objective: see bench/README.md.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "bench/dtfm_objective.hpp"
#include "bench/dtfm_proof.hpp"
#include "clusterize/genetic/genetic_search.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

struct Case {
  const char* name;
  double bar;    // what the paper's own search reached
  int decimals;  // to which that is known
};
constexpr std::array<Case, 5> kCases{{{"case0_datacenter", 3.440, 3},
                                      {"case1_spot", 49.504, 3},
                                      {"case2_two_universities", 16.087, 3},
                                      {"case3_us_regions", 34.8, 1},
                                      {"case4_worldwide", 49.2, 1}}};
constexpr int kGroups = 8;

// Nodes by region, which lie together or are spread over all groups; and at random.
std::vector<Grouping> first_groupings(const NodePool& pool, std::uint64_t seed) {
  const auto nodes = std::ssize(pool.nodes());
  const auto region = [&](int node) { return pool.node(node).region; };
  std::vector<int> by_region(nodes);
  std::iota(by_region.begin(), by_region.end(), 0);
  std::ranges::stable_sort(by_region, {}, region);
  std::vector<Grouping> seeds;
  for (std::size_t stride = 1; stride <= kGroups; stride *= 2)
    seeds.push_back(deal(spread(by_region, stride), kGroups));
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::vector<std::int64_t> order = random_permutation(nodes, rng_key(seed, "dtfm.seeds"), i);
    seeds.push_back(deal({order.begin(), order.end()}, kGroups));
  }
  return seeds;
}

// What no grouping is below, where the search has found `best`; and how long it took to prove that.
std::string least_possible(const NodePool& pool, double best) {
  const auto start = std::chrono::steady_clock::now();
  const DtfmObjective objective(pool);
  const std::optional<Grouping> better = grouping_below(best, pool, objective, kGroups);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return fmt::format("{:.3f} | {:.1f}", better ? objective.score(*better)[0] : best, spent.count());
}

int run(const ProgramArguments& arguments) {
  const auto folder = std::filesystem::path(arguments["pools"].as<std::string>());
  GeneticOptions options;
  options.threads = arguments["threads"].as<int>();
  options.evaluations = arguments["evaluations"].as<std::int64_t>();
  options.patience = arguments["patience"].as<int>();
  bool reached = true;
  const bool proves = !arguments["no-proof"].as<bool>();
  fmt::print(
      "| pool | bar | best | worst | below the bar | seconds, longest |{}\n|---|---|---|---|---|---|{}\n",
      proves ? " least possible | seconds of proof |" : "", proves ? "---|---|" : "");
  for (const auto& [name, bar, decimals] : kCases) {
    const NodePool pool = NodePool::read(folder / fmt::format("{}.json", name));
    double best = std::numeric_limits<double>::infinity();
    double worst = 0;
    double longest = 0;
    for (options.seed = 0; options.seed < arguments["seeds"].as<std::uint64_t>(); ++options.seed) {
      const auto start = std::chrono::steady_clock::now();
      const DtfmObjective objective(pool);
      const Individual found = genetic_search(objective, first_groupings(pool, options.seed), options);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      best = std::min(best, found.score[0]);
      worst = std::max(worst, found.score[0]);
      longest = std::max(longest, spent.count());
    }
    reached = reached && worst < bar + 0.5 * std::pow(10, -decimals);
    fmt::print("| {} | {:.{}f} | {:.3f} | {:.3f} | {:.1f} % | {:.1f} |{}\n", name, bar, decimals, best, worst,
               100 * (1 - worst / bar), longest,
               proves ? fmt::format(" {} |", least_possible(pool, best)) : "");
    std::fflush(stdout);
  }
  return reached ? kDone : kFailed;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  using namespace rookery;
  ProgramOptions options("Options");
  options.add_options()("pools", po::value<std::string>()->default_value("bench/dtfm"), "their folder");
  options.add_options()("seeds", po::value<std::uint64_t>()->default_value(10), "searches of each pool");
  options.add_options()("threads", po::value<int>()->default_value(2), "of a search");
  options.add_options()("evaluations", po::value<std::int64_t>()->default_value(200'000), "of a search");
  options.add_options()("patience", po::value<int>()->default_value(60), "generations without a better best");
  options.add_options()("no-proof", po::bool_switch(), "do not prove what the least possible cost is");
  const ProgramInfo info{.name = "dtfm",
                         .summary =
                             "Plans the pools of arXiv 2206.01288 by its objective; ends with 1 when "
                             "any search stays above what its authors' reached.",
                         .example = "  dtfm\n  dtfm --seeds 1 --threads 1"};
  return run_program(info, options, argc, argv, run);
}
