#include "clusterize/report/pictures/plan_picture.hpp"

#include <algorithm>
#include <array>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/report/averaging_text.hpp"
#include "clusterize/report/pictures/svg.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

using Kind = Bottleneck::Kind;

constexpr double kPad = 14;  // of a cluster's panel
constexpr double kBoxWidth = 172;
constexpr double kBoxHeight = 132;
constexpr double kGap = 96;  // between boxes, for a link and its labels
constexpr double kTitle = 26;
constexpr double kLineGap = 34;  // between lines of boxes of one cluster
constexpr std::size_t kMostPerLine = 5;
constexpr std::size_t kMostListed = 8;          // rings, nodes left out
constexpr std::size_t kMostClustersDrawn = 64;  // in the short form

double panel_width(std::size_t boxes) {
  const auto count = static_cast<double>(boxes);
  return 2 * kPad + count * kBoxWidth + (count - 1) * kGap;
}

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.3g} kB", bytes / 1e3);
  return memory_text(bytes);
}

std::string speed_text(double mbps) {
  return mbps < 1000 ? fmt::format("{:.4g} Mbit/s", mbps) : fmt::format("{:.4g} Gbit/s", mbps / 1e3);
}

std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (number < 1e4) return fmt::format("{}", count);
  return number < 1e6 ? fmt::format("{:.3g} k", number / 1e3) : fmt::format("{:.3g} M", number / 1e6);
}

std::string share_text(double share) {
  return share < 0.001 && share > 0 ? "<0.1%" : percent_text(share);
}

class PlanPicture {
 public:
  PlanPicture(const NodePool& pool, const Planned& planned, const Bottleneck& bottleneck)
      : pool_(pool), plan_(planned.plan), members_(planned.members), bottleneck_(bottleneck) {
    std::size_t longest = 0;
    for (const PlannedCluster& cluster : plan_.clusters) {
      nodes_ += cluster.stages.size();
      for (std::size_t stage = 0; stage < cluster.stages.size(); ++stage)
        machines_ += pool_node(cluster.id, stage).chunk == 0 ? 1 : 0;
      longest = std::max(longest, cluster.stages.size());
    }
    for (const PlannedCluster& cluster : plan_.clusters)
      step_ms_ = std::max(step_ms_, cluster.simulated_step_ms + plan_.predicted_averaging_ms);
    per_line_ = std::min(longest, kMostPerLine);
    // Clusters of one or two nodes stand side by side.
    const std::size_t columns =
        longest <= 2 && plan_.clusters.size() > 1 ? kMostPerLine : std::max<std::size_t>(3, per_line_);
    width_ = 2 * kMargin + panel_width(columns);
  }

  std::string draw() {
    header();
    if (nodes_ <= kMostNodesDrawn) {
      panels();
    } else {
      short_form();
    }
    if (plan_.clusters.size() > 1) rings();
    left_out();
    return svg_.document(width_, y_ + kMargin - 10, title());
  }

 private:
  std::string title() const {
    const std::size_t clusters = plan_.clusters.size();
    return fmt::format("{} on {} {}{} in {} {}: {} samples/s simulated, {} predicted, {} of the bound",
                       plan_.model, machines_, machines_ == 1 ? "node" : "nodes",
                       machines_ == nodes_ ? "" : fmt::format(" with {} stages", nodes_), clusters,
                       clusters == 1 ? "cluster" : "clusters", rate_text(plan_.simulated_samples_per_second),
                       rate_text(plan_.predicted_samples_per_second),
                       share_text(plan_.predicted_samples_per_second / plan_.bound_samples_per_second));
  }

  double inner_width() const { return width_ - 2 * kMargin; }

  // Text over the whole width; y_ moves on.
  void lines(const std::string& text, const SvgText& style) {
    for (const std::string& line : Svg::wrapped(text, inner_width(), style.size, style.bold)) {
      y_ += style.size * 1.45;
      svg_.text(kMargin, y_, line, style);
    }
  }

  void header() {
    y_ = kMargin - 8;
    lines(title(), {.size = 16, .bold = true});
    lines("Bottleneck: " + bottleneck_.text, {.size = 12, .color = svg_color::kRed});
    if (nodes_ <= kMostNodesDrawn) {
      lines(
          "Bars: memory that is used, and the share of a simulated step that the node computes. Links: "
          "latency, bandwidth, and the share of it that they carry values.",
          {.size = 10, .color = svg_color::kFaint});
    }
    y_ += 14;
  }

  // Clusters side by side where they are short.
  void panels() {
    double x = kMargin;
    double height = 0;  // of the panels in this row
    for (const PlannedCluster& cluster : plan_.clusters) {
      const std::size_t boxes = std::min(cluster.stages.size(), per_line_);
      const std::size_t lines = (cluster.stages.size() + per_line_ - 1) / per_line_;
      const double width = panel_width(boxes);
      if (x > kMargin && x + width > width_ - kMargin + 0.5) {
        x = kMargin;
        y_ += height + 12;
        height = 0;
      }
      const double own = kTitle + static_cast<double>(lines) * (kBoxHeight + kLineGap) - kLineGap + kPad +
                         (skips(cluster).empty() ? 0 : 16);
      panel(cluster, x, width, own);
      height = std::max(height, own);
      x += width + 12;
    }
    y_ += height + 8;
  }

  void panel(const PlannedCluster& cluster, double x, double width, double height) {
    svg_.rectangle(x, y_, width, height, {.fill = svg_color::kPanel, .radius = 6});
    const std::string name = fmt::format("Cluster {}: {} a step simulated, {} predicted", cluster.id,
                                         duration_text(cluster.simulated_step_ms / 1e3),
                                         duration_text(cluster.predicted_step_ms / 1e3));
    svg_.text(x + kPad, y_ + 18, Svg::shortened(name, width - 2 * kPad, 12, true),
              {.size = 12, .bold = true});
    for (std::size_t stage = 0; stage < cluster.stages.size(); ++stage) {
      const auto [left, top] = place(x, stage);
      box(cluster, stage, left, top);
      if (stage + 1 < cluster.stages.size()) link(cluster, stage, x, left, top);
    }
    const std::string others = skips(cluster);
    if (!others.empty()) {
      svg_.text(x + kPad, y_ + height - 8, Svg::shortened(others, width - 2 * kPad, 10),
                {.size = 10, .color = svg_color::kFaint});
    }
  }

  std::pair<double, double> place(double x, std::size_t stage) const {
    const std::size_t line = stage / per_line_;
    return {x + kPad + static_cast<double>(stage % per_line_) * (kBoxWidth + kGap),
            y_ + kTitle + static_cast<double>(line) * (kBoxHeight + kLineGap)};
  }

  // Are the stages on one machine?
  bool are_together(const PlannedCluster& cluster, std::size_t stage, int other) const {
    const std::vector<int>& members = members_[cluster.id];
    return pool_.machine(members[stage]) == pool_.machine(members[other]);
  }

  bool is_worst(const PlannedCluster& cluster, std::size_t stage, std::initializer_list<Kind> kinds) const {
    return cluster.id == bottleneck_.cluster && std::ranges::find(kinds, bottleneck_.kind) != kinds.end() &&
           are_together(cluster, stage, bottleneck_.stage);
  }

  // Of the link from a stage to the next one.
  bool is_worst_link(const PlannedCluster& cluster, std::size_t stage) const {
    const auto is_between = [&](int from, int to) {
      return are_together(cluster, stage, from) && are_together(cluster, stage + 1, to);
    };
    return cluster.id == bottleneck_.cluster && bottleneck_.kind == Kind::kLink &&
           (is_between(bottleneck_.stage, bottleneck_.to_stage) ||
            is_between(bottleneck_.to_stage, bottleneck_.stage));
  }

  void box(const PlannedCluster& cluster, std::size_t index, double x, double y) {
    const PlannedStage& stage = cluster.stages[index];
    const bool worst = is_worst(cluster, index, {Kind::kNode, Kind::kUpdate, Kind::kConnection});
    svg_.rectangle(x, y, kBoxWidth, kBoxHeight,
                   {.fill = svg_color::kWhite,
                    .stroke = worst ? svg_color::kRed : svg_color::kLine,
                    .stroke_width = worst ? 2.5 : 1,
                    .radius = 5,
                    .tip = stage.address});
    const double left = x + 10;
    const double inside = kBoxWidth - 20;
    const std::string role = role_of(static_cast<int>(index), static_cast<int>(cluster.stages.size()));
    const double role_width = Svg::text_width(role, 10);
    svg_.text(left, y + 19, Svg::shortened(stage.node, inside - role_width - 6, 13, true),
              {.size = 13, .bold = true});
    svg_.text(x + kBoxWidth - 10, y + 19, role,
              {.size = 10, .color = svg_color::kFaint, .align = SvgAlign::kEnd});
    svg_.text(left, y + 36, fmt::format("{} of the work", share_text(work_share(cluster, stage))),
              {.size = 11});
    svg_.text(left, y + 51, Svg::shortened(count_text(stage.parameters) + " parameters", inside, 11),
              {.size = 11});
    const double ram = pool_node(cluster.id, index).ram_gb * 1e9;
    const auto used = static_cast<double>(stage.prediction.total_bytes());
    bar(left, y + 60, inside, used / ram, svg_color::kBlue);
    svg_.text(left, y + 80, fmt::format("{} of {} memory", bytes_text(used), bytes_text(ram)), {.size = 10});
    const double work = plan_.micro_batches * (stage.prediction.forward_ms + stage.prediction.backward_ms) +
                        stage.prediction.update_ms;
    const double busy = work / step_ms_;
    bar(left, y + 88, inside, busy, worst ? svg_color::kRed : svg_color::kGreen);
    svg_.text(left, y + 108, fmt::format("computes {}", share_text(std::min(busy, 1.0))), {.size = 10});
    if (worst) {
      svg_.text(x + kBoxWidth - 10, y + 108, "bottleneck",
                {.size = 10, .color = svg_color::kRed, .align = SvgAlign::kEnd, .bold = true});
    }
    if (plan_.clusters.size() > 1)
      svg_.text(left, y + 124, Svg::shortened(rings_of(cluster.id, index), inside, 10),
                {.size = 10, .color = svg_color::kFaint});
    else
      svg_.text(left, y + 124, Svg::shortened(stage.address, inside, 10),
                {.size = 10, .color = svg_color::kFaint});
  }

  void bar(double x, double y, double width, double share, std::string_view color) {
    svg_.rectangle(x, y, width, 8, {.fill = svg_color::kPanel, .radius = 2});
    const double filled = width * std::clamp(share, 0.0, 1.0);
    if (filled > 0.5) svg_.rectangle(x, y, filled, 8, {.fill = color, .radius = 2});
  }

  // From a stage to the next one, which may begin a new line.
  void link(const PlannedCluster& cluster, std::size_t stage, double panel_x, double x, double y) {
    const auto found = std::ranges::find_if(cluster.links, [&](const PlannedLink& link) {
      return link.from == static_cast<int>(stage) && link.to == static_cast<int>(stage) + 1;
    });
    if (found == cluster.links.end()) return;
    const bool worst = is_worst_link(cluster, stage);
    const std::string_view color = worst ? svg_color::kRed : svg_color::kFaint;
    const auto most = static_cast<double>(std::max(found->activation_bytes, found->gradient_bytes));
    const double load = plan_.micro_batches * most / (125 * found->bandwidth_mbps) / step_ms_;
    const std::array<std::string, 3> labels{duration_text(found->latency_ms / 1e3),
                                            speed_text(found->bandwidth_mbps), share_text(load) + " used"};
    const double width = worst ? 2.5 : 1.5;
    const double right = x + kBoxWidth;
    const double middle = y + kBoxHeight / 2;
    const SvgText style{.size = 10, .color = worst ? color : svg_color::kInk, .align = SvgAlign::kMiddle};
    if ((stage + 1) % per_line_ != 0) {
      const std::array<std::pair<double, double>, 2> points{std::pair(right + 4, middle),
                                                            std::pair(right + kGap - 4, middle)};
      svg_.arrow(points, color, width);
      svg_.text(right + kGap / 2, middle - 22, labels[0], style);
      svg_.text(right + kGap / 2, middle - 9, labels[1], style);
      svg_.text(right + kGap / 2, middle + 19, labels[2], style);
      return;
    }
    const double below = y + kBoxHeight + kLineGap / 2;
    const double into = panel_x + kPad + kBoxWidth / 2;
    const double out = x + kBoxWidth / 2;
    const std::array<std::pair<double, double>, 4> points{std::pair(out, y + kBoxHeight + 3),
                                                          std::pair(out, below), std::pair(into, below),
                                                          std::pair(into, y + kBoxHeight + kLineGap - 3)};
    svg_.arrow(points, color, width);
    svg_.text((into + out) / 2, below - 5, fmt::format("{}, {}, {}", labels[0], labels[1], labels[2]), style);
  }

  // What goes past neighbours.
  static std::string skips(const PlannedCluster& cluster) {
    std::vector<std::string> all;
    for (const PlannedLink& link : cluster.links) {
      if (link.to == link.from + 1) continue;
      all.push_back(fmt::format("{} → {} {}", cluster.stages[link.from].node, cluster.stages[link.to].node,
                                bytes_text(static_cast<double>(link.activation_bytes))));
    }
    return all.empty() ? std::string() : fmt::format("And, per micro-batch: {}", fmt::join(all, "; "));
  }

  double work_share(const PlannedCluster& cluster, const PlannedStage& stage) const {
    double all = 0;
    for (const PlannedStage& other : cluster.stages) all += other.forward_flops + other.backward_flops;
    return (stage.forward_flops + stage.backward_flops) / all;
  }

  const PoolNode& pool_node(int cluster, std::size_t stage) const {
    return pool_.node(members_[cluster][stage]);
  }

  std::string rings_of(int cluster, std::size_t stage) const {
    std::vector<int> ids;
    for (const Ring& ring : plan_.rings) {
      if (ring.stages[cluster] == static_cast<int>(stage)) ids.push_back(ring.id);
    }
    if (ids.empty()) return "in no ring";
    return fmt::format("{} {}", ids.size() == 1 ? "ring" : "rings", fmt::join(ids, ", "));
  }

  void short_form() {
    lines(fmt::format("{} clusters; bars: their steps beside the slowest", plan_.clusters.size()),
          {.size = 11, .color = svg_color::kFaint});
    double slowest = 0;
    for (const PlannedCluster& cluster : plan_.clusters)
      slowest = std::max(slowest, cluster.simulated_step_ms);
    constexpr double kName = 84;
    constexpr double kBar = 220;
    y_ += 8;
    for (std::size_t c = 0; c < std::min(plan_.clusters.size(), kMostClustersDrawn); ++c) {
      const PlannedCluster& cluster = plan_.clusters[c];
      std::vector<std::string> names;
      for (const PlannedStage& stage : cluster.stages) names.push_back(stage.node);
      const bool worst = cluster.id == bottleneck_.cluster;
      svg_.text(kMargin, y_ + 11, fmt::format("cluster {}", cluster.id), {.size = 11, .bold = worst});
      bar(kMargin + kName, y_ + 3, kBar, cluster.simulated_step_ms / slowest,
          worst ? svg_color::kRed : svg_color::kGreen);
      svg_.text(kMargin + kName + kBar + 10, y_ + 11, duration_text(cluster.simulated_step_ms / 1e3),
                {.size = 11});
      const double left = kMargin + kName + kBar + 90;
      svg_.text(left, y_ + 11,
                Svg::shortened(fmt::format("{}", fmt::join(names, " → ")), width_ - kMargin - left, 11),
                {.size = 11});
      y_ += 18;
    }
    if (plan_.clusters.size() > kMostClustersDrawn)
      lines(fmt::format("and {} more clusters", plan_.clusters.size() - kMostClustersDrawn), {.size = 11});
    y_ += 8;
  }

  void rings() {
    lines(fmt::format("Rings: {}, all at once; a round takes {}", averaging_text(plan_.averaging),
                      duration_text(plan_.predicted_round_ms / 1e3)),
          {.size = 12, .bold = true});
    for (std::size_t r = 0; r < std::min(plan_.rings.size(), kMostListed); ++r) {
      const Ring& ring = plan_.rings[r];
      std::vector<std::string> names;
      for (std::size_t c = 0; c < ring.stages.size(); ++c)
        names.push_back(plan_.clusters[c].stages[ring.stages[c]].node);
      const std::string text =
          fmt::format("ring {}: {} from {} on: {} → {}", ring.id, bytes_text(static_cast<double>(ring.bytes)),
                      ring.parameters.front(), fmt::join(names, " → "), names.front());
      lines(Svg::shortened(text, inner_width(), 11), {.size = 11});
    }
    if (plan_.rings.size() > kMostListed)
      lines(fmt::format("and {} more rings", plan_.rings.size() - kMostListed), {.size = 11});
    y_ += 8;
  }

  void left_out() {
    if (plan_.left_out.empty()) return;
    lines("Left out", {.size = 12, .bold = true});
    for (std::size_t i = 0; i < std::min(plan_.left_out.size(), kMostListed); ++i)
      lines(fmt::format("{}: {}", plan_.left_out[i].node, plan_.left_out[i].reason),
            {.size = 11, .color = svg_color::kFaint});
    if (plan_.left_out.size() > kMostListed)
      lines(fmt::format("and {} more nodes", plan_.left_out.size() - kMostListed), {.size = 11});
    y_ += 8;
  }

  const NodePool& pool_;  // all of the caller
  const ClusterPlan& plan_;
  const Clusters& members_;
  const Bottleneck& bottleneck_;
  std::size_t nodes_ = 0;  // of the plan: stages
  std::size_t machines_ = 0;
  double step_ms_ = 0;  // simulated, of the slowest cluster and the averaging behind it
  std::size_t per_line_ = 1;
  double width_ = 0;
  double y_ = 0;
  Svg svg_;
};

}  // namespace

std::string plan_picture(const NodePool& pool, const Planned& planned, const Bottleneck& bottleneck) {
  return PlanPicture(pool, planned, bottleneck).draw();
}

}  // namespace rookery
