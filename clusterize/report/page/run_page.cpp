#include "clusterize/report/page/run_page.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string_view>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/report/pictures/svg.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.5 Verdana, "DejaVu Sans", sans-serif; color: #1f2933; background: #fff; margin: 0 auto; padding: 1em; max-width: 80em; }
h1 { font-size: 1.5em; margin: 0.2em 0; } h2 { font-size: 1.15em; margin: 1.6em 0 0.4em; border-bottom: 1px solid #c9ced3; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 0.2em 0.8em 0.2em 0; border-bottom: 1px solid #eef1f4; vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } .faint { color: #5f6b76; } .good { color: #2f7d54; } .bad { color: #b3261e; font-weight: bold; }
.curves { display: flex; flex-wrap: wrap; gap: 1em; } svg { max-width: 100%; height: auto; }
pre { background: #fbfbf8; border: 1px solid #eef1f4; padding: 0.6em; white-space: pre-wrap; overflow-wrap: anywhere; }
)";

std::string safe(std::string_view text) {
  return escaped_markup(text);
}

// Of several lines, for <pre>.
std::string safe_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += safe(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// A JSON value as people read it: texts without quotation marks.
std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string cell(const std::string& text, bool is_number = false) {
  return fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", safe(text));
}

class RunPage {
 public:
  explicit RunPage(const RunFiles& files) : files_(files) {}

  std::string write() {
    const auto model = files_.plan.at("model").get<std::string>();
    add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{} — "
        "Rookery</title>\n<style>{}</style>\n"
        "</head>\n<body>\n",
        safe(model), kStyle);
    summary(model);
    failures();
    curves();
    times();
    rounds();
    pictures();
    settings();
    missing();
    page_ += "</body>\n</html>\n";
    return std::move(page_);
  }

 private:
  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(page_), format, std::forward<T>(values)...);
  }
  void heading(const char* text) { add("<h2>{}</h2>\n", text); }
  void paragraph(const std::string& text) { add("<p class=\"faint\">{}</p>\n", safe(text)); }

  const Curve* curve(const std::string& name) const {
    const auto found = files_.curves.find(name);
    return found == files_.curves.end() ? nullptr : &found->second;
  }

  // Of machines: a provider has all stages of one.
  struct NodeCounts {
    std::size_t nodes = 0, stages = 0;
    std::size_t failed = 0;  // with any of its stages
    std::size_t done = 0;    // with all of them
  };

  NodeCounts node_counts() const {
    struct Stages {
      std::size_t all = 0, failed = 0, done = 0;
    };
    std::map<std::string, Stages> machines;
    for (const Json& cluster : files_.plan.at("clusters")) {
      for (const Json& stage : cluster.at("stages")) {
        const auto node = stage.at("node").get<std::string>();
        Stages& own = machines[machine_of_node(node)];
        ++own.all;
        const auto end = files_.ends.find(node);
        if (end == files_.ends.end()) continue;
        own.failed += end->second.at("event") == "failed" ? 1 : 0;
        own.done += end->second.at("event") == "done" ? 1 : 0;
      }
    }
    NodeCounts counts{.nodes = machines.size()};
    for (const auto& [machine, own] : machines) {
      counts.stages += own.all;
      counts.failed += own.failed > 0 ? 1 : 0;
      counts.done += own.done == own.all ? 1 : 0;
    }
    return counts;
  }

  bool has_rounds() const {
    return std::ranges::any_of(files_.ends, [](const auto& end) { return end.second.contains("rounds"); });
  }

  void summary(const std::string& model) {
    const Json& plan = files_.plan;
    const NodeCounts count = node_counts();
    add("<h1>{}</h1>\n", safe(model));
    add("<p class=\"faint\">data {} · {} nodes{} in {} cluster{} · schedule {} · batch {} · plan {}</p>\n",
        safe(value_text(files_.settings.at("data"))), count.nodes,
        count.stages == count.nodes ? "" : fmt::format(" with {} stages", count.stages),
        plan.at("clusters").size(), plan.at("clusters").size() == 1 ? "" : "s",
        safe(value_text(plan.at("schedule"))), safe(value_text(plan.at("batch_size"))),
        safe(value_text(plan.at("plan_id"))));
    if (count.failed > 0) {
      add("<p class=\"bad\">{} of {} nodes failed</p>\n", count.failed, count.nodes);
    } else if (count.done == count.nodes) {
      add("<p class=\"good\">trained to its end on all nodes</p>\n");
    } else {
      add("<p>{} of {} nodes have ended</p>\n", count.done, count.nodes);
    }
    page_ += "<table>\n";
    if (const Curve* loss = curve("loss/train"))
      add("<tr><th>loss</th>{}</tr>\n",
          cell(fmt::format("{:.5g} at step {:.0f}; {:.5g} at the first", loss->points.back().second,
                           loss->points.back().first, loss->points.front().second)));
    if (const Curve* accuracy = curve("accuracy/validation")) {
      const auto best =
          std::ranges::max_element(accuracy->points, {}, [](const auto& point) { return point.second; });
      add("<tr><th>validation accuracy</th>{}</tr>\n",
          cell(fmt::format("{:.2f} %; at best {:.2f} %, at step {:.0f}", accuracy->points.back().second,
                           best->second, best->first)));
    }
    add("<tr><th>samples per second</th>{}</tr>\n", cell(rate_text()));
    page_ += "</table>\n";
  }

  std::string rate_text() const {
    const std::string predicted = fmt::format("{:.0f} predicted, {:.0f} simulated",
                                              files_.plan.at("predicted_samples_per_second").get<double>(),
                                              files_.plan.at("simulated_samples_per_second").get<double>());
    const Curve* rate = curve("samples_per_second");
    return rate == nullptr ? predicted : fmt::format("{:.0f}; {}", rate->points.back().second, predicted);
  }

  void failures() {
    if (node_counts().failed == 0) return;
    heading("Failures");
    for (const auto& [node, end] : files_.ends) {
      if (end.at("event") == "failed")
        add("<p><b>{}</b> ({})</p>\n<pre>{}</pre>\n", safe(node), safe(value_text(end.at("role"))),
            safe_lines(value_text(end.at("text"))));
    }
  }

  void curves() {
    heading("Curves");
    struct Group {
      const char* title;
      std::string_view prefix;
      std::string_view suffix;
    };
    constexpr std::array<Group, 11> kGroups{
        {{"Loss", "loss/", ""},
         {"Accuracy, %", "accuracy/", ""},
         {"Learning rate", "learning_rate", ""},
         {"Norm of the gradients", "gradient_norm", ""},
         {"Samples per second", "samples_per_second", ""},
         {"Share of the time computing", "", "/computing"},
         {"Share of the time waiting for other stages", "", "/waiting"},
         {"Share of the time waiting for rounds", "", "/waiting_for_rounds"},
         {"Memory, MB", "", "/memory_mb"},
         {"Sent, Mbit/s", "", "/sent_mbit_per_second"},
         {"Staleness of gradients, updates", "", "/staleness"}}};
    page_ += "<div class=\"curves\">\n";
    for (const Group& group : kGroups) {
      std::vector<Curve> members;
      for (const auto& [name, one] : files_.curves) {
        if (!name.starts_with(group.prefix) || !name.ends_with(group.suffix)) continue;
        members.push_back(one);
        members.back().name.resize(name.size() - group.suffix.size());  // the title says the rest
      }
      if (!members.empty()) page_ += curve_picture(group.title, members);
    }
    page_ += "</div>\n";
    if (files_.curves.empty()) paragraph("none");
  }

  // A row for each node; of each time what was predicted, what was measured, and by how much it is off.
  void times() {
    heading("Predicted and measured");
    std::vector<std::string> names{"forward", "backward", "update", "step"};
    if (has_rounds()) names.emplace_back("round");
    page_ +=
        "<div class=\"wide\"><table>\n<tr><th>node</th><th>cluster</th><th>role</th><th "
        "class=\"n\">parameters</th>"
        "<th class=\"n\">threads</th>";
    for (const std::string& name : names) add("<th class=\"n\">{}, ms</th>", name);
    page_ += "</tr>\n";
    for (const Json& cluster : files_.plan.at("clusters")) {
      for (const Json& stage : cluster.at("stages")) {
        const auto node = stage.at("node").get<std::string>();
        page_ += "<tr>" + cell(node) + cell(value_text(cluster.at("id"))) +
                 cell(value_text(stage.at("role"))) + cell(value_text(stage.at("parameters")), true) +
                 cell(value_text(stage.at("threads")), true);
        const auto end = files_.ends.find(node);
        for (const std::string& name : names)
          page_ += cell(end == files_.ends.end()
                            ? ""
                            : time_text(end->second.value("times", Json::object()), name + "_ms"),
                        true);
        page_ += "</tr>\n";
      }
    }
    page_ += "</table></div>\n";
    paragraph("predicted → measured; forward and backward of a micro-batch");
  }

  static std::string time_text(const Json& times, const std::string& name) {
    if (!times.contains(name)) return "";
    const auto predicted = times.at(name).at("predicted").get<double>();
    const auto measured = times.at(name).at("measured").get<double>();
    const std::string off =
        predicted > 0 ? fmt::format(" ({:+.0f} %)", 100 * (measured / predicted - 1)) : "";
    return fmt::format("{:.4g} → {:.4g}{}", predicted, measured, off);
  }

  void rounds() {
    if (!has_rounds()) return;
    heading("Rounds of averaging");
    page_ +=
        "<table>\n<tr><th>node</th><th class=\"n\">rounds</th><th class=\"n\">waited, "
        "s</th><th>sent</th></tr>\n";
    for (const auto& [node, end] : files_.ends) {
      if (!end.contains("rounds")) continue;
      std::vector<std::string> sent;
      for (const auto& [ring, bytes] : end.value("ring_bytes", Json::object()).items())
        sent.push_back(fmt::format("{:.1f} MB in ring {}", bytes.get<double>() / 1e6, ring));
      page_ += "<tr>" + cell(node) + cell(value_text(end.at("rounds")), true) +
               cell(fmt::format("{:.2f}", end.value("exposed_seconds", 0.0)), true) +
               cell(fmt::format("{}", fmt::join(sent, ", "))) + "</tr>\n";
    }
    page_ += "</table>\n";
  }

  void pictures() {
    for (const auto& [title, picture] :
         {std::pair("Plan", &files_.plan_picture), std::pair("A step, simulated", &files_.step_picture)}) {
      if (picture->empty()) continue;
      heading(title);
      add("<div class=\"wide\">\n{}</div>\n", *picture);
    }
  }

  void settings() {
    heading("Settings");
    page_ += "<table>\n";
    for (const auto& [key, value] : files_.settings.items())
      add("<tr><th>{}</th>{}</tr>\n", safe(key), cell(value_text(value)));
    page_ += "</table>\n";
  }

  void missing() {
    if (files_.missing.empty()) return;
    heading("Not on this page");
    page_ += "<ul>\n";
    for (const std::string& what : files_.missing) add("<li class=\"faint\">{}</li>\n", safe(what));
    page_ += "</ul>\n";
  }

  const RunFiles& files_;
  std::string page_;
};

}  // namespace

std::string run_page(const RunFiles& files) {
  return RunPage(files).write();
}

}  // namespace rookery
