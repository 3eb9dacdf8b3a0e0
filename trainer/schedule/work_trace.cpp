#include "trainer/schedule/work_trace.hpp"

#include <array>
#include <iterator>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr const char* kFormat = "rookery.trace";
constexpr std::int64_t kVersion = 1;

// What the drawing programs show, and colour by.
constexpr std::array<std::pair<ActionKind, const char*>, 4> kNames{
    {{ActionKind::kForward, "forward"},
     {ActionKind::kBackwardInputs, "backward: inputs"},
     {ActionKind::kBackwardWeights, "backward: weights"},
     {ActionKind::kUpdate, "update"}}};

// Of events without those that name processes and threads.
Json make_schema() {
  return Json::parse(R"({
    "type": "object", "required": ["otherData", "traceEvents"],
    "properties": {
      "otherData": {"type": "object", "required": ["format", "version", "plan_id", "node", "cluster", "stage"],
        "properties": {"plan_id": {"type": "string"}, "node": {"type": "string"},
                       "cluster": {"type": "integer", "minimum": 0, "maximum": 999999},
                       "stage": {"type": "integer", "minimum": 0, "maximum": 999999}}},
      "traceEvents": {"type": "array", "items": {
        "type": "object", "required": ["cat", "ts", "dur", "args"],
        "properties": {
          "cat": {"enum": ["F", "B", "W", "U"]},
          "ts": {"type": "number"}, "dur": {"type": "number", "minimum": 0},
          "args": {"type": "object", "required": ["step", "micro_batch"], "properties": {
            "step": {"type": "integer", "minimum": 0}, "micro_batch": {"type": "integer", "minimum": 0, "maximum": 1048576}}}}}}}
  })");
}

void remove_names(Json& document) {
  const auto events = document.is_object() ? document.find("traceEvents") : document.end();
  if (!document.is_object() || events == document.end() || !events->is_array()) return;
  Json kept = Json::array();
  for (Json& event : *events)
    if (!event.is_object() || event.value("ph", Json()) != "M") kept.push_back(std::move(event));
  *events = std::move(kept);
}

}  // namespace

void WorkTrace::add(const Action& action, Clock::time_point begin, Clock::time_point end) {
  const auto seconds = [this](Clock::time_point at) {
    return std::chrono::duration<double>(since_1970_ + at.time_since_epoch()).count();
  };
  actions_.push_back({action, seconds(begin), seconds(end)});
  if (actions_.size() > kMost) actions_.pop_front();
}

void write_trace(const std::filesystem::path& path, const TraceOwner& owner,
                 const std::deque<TracedAction>& actions) {
  const Json about = {{"format", kFormat},  {"version", kVersion},      {"plan_id", owner.plan_id},
                      {"node", owner.node}, {"cluster", owner.cluster}, {"stage", owner.stage}};
  std::string text =
      fmt::format("{{\"otherData\": {}, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", about.dump());
  const auto place = fmt::format("\"pid\": {}, \"tid\": {}", owner.cluster, owner.stage);
  const auto name = [&](const char* what, const std::string& given) {
    return fmt::format(R"({{"ph": "M", "name": "{}", {}, "args": {{"name": "{}"}}}})", what, place, given);
  };
  auto into = std::back_inserter(text);
  fmt::format_to(into, "{},\n{}", name("process_name", fmt::format("cluster {}", owner.cluster)),
                 name("thread_name", fmt::format("stage {}: {}", owner.stage, owner.node)));
  for (const auto& [action, begin, end] : actions) {
    const auto kind = static_cast<char>(action.kind);
    const char* shown = "";
    for (const auto& [of, what] : kNames)
      if (of == action.kind) shown = what;
    fmt::format_to(
        into,
        ",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
        "\"args\": {{\"step\": {}, \"micro_batch\": {}}}}}",
        kind, shown, place, 1e6 * begin, 1e6 * (end - begin), action.batch, action.micro_batch);
  }
  text += "\n]}\n";
  write_file(path, text);
}

ReadTrace read_trace(const std::filesystem::path& path) {
  static const Json schema = make_schema();
  Json document = read_json(path);
  remove_names(document);
  validate_json(document, schema, path.string());
  const Json& about = document.at("otherData");
  check_format(about, kFormat, kVersion, path.string());
  ReadTrace trace{.owner = {.plan_id = about.at("plan_id").get<std::string>(),
                            .node = about.at("node").get<std::string>(),
                            .cluster = about.at("cluster").get<int>(),
                            .stage = about.at("stage").get<int>()}};
  for (const Json& event : document.at("traceEvents")) {
    const double begin = event.at("ts").get<double>() / 1e6;
    const Json& args = event.at("args");
    trace.actions.push_back(
        {.action = {.kind = static_cast<ActionKind>(event.at("cat").get<std::string>().front()),
                    .batch = args.at("step").get<std::int64_t>(),
                    .micro_batch = args.at("micro_batch").get<int>()},
         .begin = begin,
         .end = begin + event.at("dur").get<double>() / 1e6});
  }
  return trace;
}

}  // namespace rookery
