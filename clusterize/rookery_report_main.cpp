// rookery_report: one page of a run.

#include <filesystem>

#include "clusterize/report/page/run_page.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

int report(const ProgramArguments& arguments) {
  const std::filesystem::path page = arguments["page"].as<std::string>();
  const RunFiles files =
      read_run(arguments["node-data"].as<std::string>(), arguments["output"].as<std::string>());
  write_file(page, run_page(files));
  fmt::print("{}\n", page.string());
  for (const std::string& what : files.missing)
    fmt::print(stderr, "rookery_report: not on the page: {}\n", what);
  return kDone;
}

}  // namespace

int rookery_report_main(int argc, char** argv) {
  namespace po = boost::program_options;
  ProgramOptions options;
  options.add_options()("node-data",
                        po::value<std::string>()->value_name("DIR")->default_value("./node_data"),
                        "folder that clusterize wrote");
  options.add_options()("output", po::value<std::string>()->value_name("DIR")->default_value("."),
                        "folder that the providers write into, which has runs/");
  options.add_options()("page", po::value<std::string>()->value_name("FILE")->default_value("report.html"),
                        "the page");
  const ProgramInfo info{
      .name = "rookery_report",
      .summary =
          "Writes one HTML page of a run, to be read in any browser without a network: what was trained and "
          "how it "
          "ended, the curves, of every node its times predicted and measured, failures, the plan, a step, "
          "and all "
          "settings. While a run goes on it shows what there is until then. Of nodes on other machines it "
          "shows what "
          "their providers wrote into runs/, once those files are here.",
      .example =
          "  clusterize && launch && rookery_report\n"
          "  rookery_report --node-data my_pool --output my_run --page my_run/report.html"};
  return run_program(info, options, argc, argv, report);
}

}  // namespace rookery
