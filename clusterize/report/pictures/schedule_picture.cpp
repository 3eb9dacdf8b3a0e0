#include "clusterize/report/pictures/schedule_picture.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "clusterize/report/pictures/svg.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

using Kind = Bottleneck::Kind;

constexpr double kWidth = 1240;
constexpr double kNames = 120;  // of the nodes, left of the time
constexpr double kRow = 44;
constexpr double kWorkHeight = 22;
constexpr double kSendHeight = 7;
constexpr double kLegible = 15;  // pixels that a number needs
constexpr double kMeasuredTitle = 24;

std::string_view color_of(Work work) {
  switch (work) {
    case Work::kForward:
      return svg_color::kBlue;
    case Work::kBackwardInputs:
      return svg_color::kOrange;
    case Work::kBackwardWeights:
      return svg_color::kGreen;
    case Work::kUpdate:
      return svg_color::kPurple;
  }
  return svg_color::kInk;
}

// Something on a row; `end` moves where neighbours that are too small to be told apart become one.
struct Bar {
  double begin = 0;
  double end = 0;
  std::string_view color;
  std::string label;
};

class SchedulePicture {
 public:
  SchedulePicture(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                  const Bottleneck& bottleneck, const MeasuredStep& measured)
      : plan_(planned.plan),
        planned_(planned),
        bottleneck_(bottleneck),
        measured_(measured),
        steps_(steps_to_draw(task, planned)) {
    for (std::size_t c = 0; c < planned.members.size(); ++c) {
      const PipelineModel model = pipeline_model(task, pool, planned, c);
      overlaps_ = steps_overlap(model);
      programs_.push_back(program_of_full_batches(task.settings, model, steps_));
      traces_.emplace_back();
      runs_.push_back(simulate_step(programs_.back(), {}, &traces_.back()));
      barrier_ = std::max(barrier_, runs_.back().seconds);
    }
    averages(task, pool);
    simulated_ = end_;
    end_ = std::max(end_, measured_.seconds);
    choose_rows();
  }

  std::string draw() {
    header();
    const double top = y_;
    axis(top);
    for (const std::size_t cluster : shown_) rows(cluster);
    return svg_.document(kWidth, y_ + kMargin, title());
  }

 private:
  // A round behind the step; or, where rounds overlap, that of a fragment beside it, with what it is longer
  // than the steps beside which it runs.
  void averages(const TrainingTask& task, const NodePool& pool) {
    end_ = barrier_;
    if (planned_.members.size() < 2) return;
    const RoundRate rate = round_rate(planned_);
    double seconds = plan_.predicted_round_ms / 1e3;
    if (averaging_is_simulated(plan_)) {
      averaging_program_ = averaging_program(task, pool, planned_, rate.fragments);
      seconds = simulate_step(averaging_program_, {}, &averaging_).seconds;
    }
    const bool overlaps = rate.steps_beside > 0;
    round_begin_ = overlaps ? 0 : barrier_;
    end_ += overlaps ? std::max(0.0, seconds - rate.steps_beside * barrier_) : seconds;
    round_end_ = std::min(round_begin_ + seconds, end_);
  }

  // The slowest clusters first, as long as there is room; then in their order.
  void choose_rows() {
    std::vector<std::size_t> order(runs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return runs_[a].seconds > runs_[b].seconds; });
    std::size_t rows = 0;
    for (const std::size_t cluster : order) {
      const std::size_t more = planned_.members[cluster].size();
      if (!shown_.empty() && rows + more > kMostRowsDrawn) break;
      rows += more;
      shown_.push_back(cluster);
    }
    std::ranges::sort(shown_);
  }

  std::string title() const {
    double computing = 0;
    double machines = 0;
    for (std::size_t c = 0; c < runs_.size(); ++c) {
      for (const double seconds : runs_[c].computing) computing += seconds;
      machines += static_cast<double>(programs_[c].machines());
    }
    const std::string took = fmt::format("{}, bubble {:.1f}%", duration_text(simulated_),
                                         100 * (1 - computing / (machines * simulated_)));
    if (steps_ > 1)
      return fmt::format("{} steps of {}, {} samples each, from an empty pipeline to an empty one: {}",
                         steps_, plan_.model, plan_.batch_size, took);
    return fmt::format("One step of {}{}, {} samples in {} micro-batch{}: {}", plan_.model,
                       overlaps_ ? " alone" : "", plan_.batch_size, plan_.micro_batches,
                       plan_.micro_batches == 1 ? "" : "es", took);
  }

  void header() {
    y_ = kMargin + 10;
    const double room = kWidth - 2 * kMargin;
    svg_.text(kMargin, y_, Svg::shortened(title(), room, 16, true), {.size = 16, .bold = true});
    y_ += 20;
    svg_.text(kMargin, y_, Svg::shortened("Bottleneck: " + bottleneck_.text, room, 12),
              {.size = 12, .color = svg_color::kRed});
    y_ += 22;
    double x = kMargin;
    const auto entry = [&](std::string_view color, double height, const std::string& text) {
      svg_.rectangle(x, y_ - 9 + (12 - height) / 2, 14, height, {.fill = color, .radius = 2});
      svg_.text(x + 19, y_ + 1, text, {.size = 11});
      x += 19 + Svg::text_width(text, 11) + 14;
    };
    entry(svg_color::kBlue, 12, "forward");
    entry(svg_color::kOrange, 12, "backward: inputs");
    entry(svg_color::kGreen, 12, "backward: weights");
    entry(svg_color::kPurple, 12, "update");
    entry(svg_color::kTeal, kSendHeight, "sending");
    if (planned_.members.size() > 1) entry(averaging_color(), kSendHeight, "averaging");
    if (is_message(bottleneck_.kind)) entry(svg_color::kRed, kSendHeight, "the bottleneck");
    y_ += 8;
    if (shown_.size() < runs_.size()) {
      y_ += 14;
      svg_.text(kMargin, y_, fmt::format("The slowest {} of {} clusters", shown_.size(), runs_.size()),
                {.size = 11, .color = svg_color::kFaint});
    }
    y_ += 26;
  }

  double x_of(double seconds) const {
    return kMargin + kNames + seconds / end_ * (kWidth - 2 * kMargin - kNames);
  }

  void axis(double top) {
    double bottom = top;
    for (const std::size_t cluster : shown_)
      bottom += cluster_title() + kRow * static_cast<double>(planned_.members[cluster].size()) +
                measured_height(cluster);
    const double tick = axis_tick(end_, 12);
    for (double at = 0; at <= end_ * (1 + 1e-9); at += tick) {
      svg_.line(x_of(at), top, x_of(at), bottom, svg_color::kLine);
      const bool last = x_of(at) > kWidth - kMargin - 30;
      svg_.text(x_of(at) + (last ? 4 : 0), top - 5, at == 0 ? std::string("0") : duration_text(at),
                {.size = 10, .color = svg_color::kFaint, .align = last ? SvgAlign::kEnd : SvgAlign::kMiddle});
    }
  }

  static bool is_message(Kind kind) {
    return kind == Kind::kLink || kind == Kind::kConnection || kind == Kind::kExchange;
  }

  std::string_view averaging_color() const {
    return bottleneck_.kind == Kind::kAveraging ? svg_color::kRed : svg_color::kPink;
  }

  bool is_worst_node(std::size_t cluster, std::size_t stage) const {
    return (bottleneck_.kind == Kind::kNode || bottleneck_.kind == Kind::kUpdate ||
            bottleneck_.kind == Kind::kConnection) &&
           bottleneck_.cluster == static_cast<int>(cluster) &&
           bottleneck_.stage == programs_[cluster].machine(stage);
  }

  std::string_view sending_color(std::size_t cluster, const ProgramMessage& message) const {
    const int from = programs_[cluster].machine(static_cast<std::size_t>(message.from));
    const int to = programs_[cluster].machine(static_cast<std::size_t>(message.to));
    const bool is_exchange = message.use != MessageUse::kActivation && message.use != MessageUse::kGradient;
    const auto worst = [&] {
      if (bottleneck_.cluster != static_cast<int>(cluster)) return false;
      if (is_exchange) return bottleneck_.kind == Kind::kExchange;
      if (bottleneck_.kind == Kind::kConnection)
        return from != to && (from == bottleneck_.stage || to == bottleneck_.stage);
      return bottleneck_.kind == Kind::kLink && std::min(from, to) == bottleneck_.stage &&
             std::max(from, to) == bottleneck_.to_stage;
    };
    return worst() ? svg_color::kRed : svg_color::kTeal;
  }

  double cluster_title() const { return runs_.size() > 1 ? 22 : 6; }

  void rows(std::size_t cluster) {
    y_ += cluster_title();
    if (runs_.size() > 1)
      svg_.text(kMargin, y_ - 5, fmt::format("Cluster {}", cluster), {.size = 11, .bold = true});
    const std::size_t stages = planned_.members[cluster].size();
    std::vector<std::vector<Bar>> work(stages);
    std::vector<std::vector<Bar>> sending(stages);
    for (const WorkSpan& span : traces_[cluster].work) {
      const bool numbered = span.work != Work::kUpdate;
      add(work[span.node],
          {span.begin, span.end, color_of(span.work), numbered ? std::to_string(span.micro_batch) : ""});
    }
    add_averaging(cluster, sending);
    for (const MessageSpan& span : traces_[cluster].messages) {
      const ProgramMessage& message = programs_[cluster].messages[span.message];
      add(sending[message.from], {span.begin, span.sent, sending_color(cluster, message), ""});
    }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      row(plan_.clusters[cluster].stages[stage].node, runs_[cluster].computing[stage] / simulated_,
          is_worst_node(cluster, stage), work[stage], sending[stage]);
    }
    measured_rows(cluster);
  }

  std::size_t measured_in(std::size_t cluster) const {
    return static_cast<std::size_t>(
        std::ranges::count(measured_.rows, static_cast<int>(cluster), &MeasuredRow::cluster));
  }
  double measured_height(std::size_t cluster) const {
    const std::size_t rows = measured_in(cluster);
    return rows == 0 ? 0 : kMeasuredTitle + kRow * static_cast<double>(rows);
  }

  void measured_rows(std::size_t cluster) {
    if (measured_in(cluster) == 0) return;
    y_ += kMeasuredTitle;
    const std::string which = measured_.steps == 1 ? fmt::format("step {}", measured_.step)
                                                   : fmt::format("steps {} to {}", measured_.step,
                                                                 measured_.step + measured_.steps - 1);
    svg_.text(kMargin, y_ - 6,
              fmt::format("Measured: {}, {} on all nodes that were traced", which,
                          duration_text(measured_.seconds)),
              {.size = 11, .bold = true});
    for (const MeasuredRow& own : measured_.rows) {
      if (own.cluster != static_cast<int>(cluster)) continue;
      std::vector<Bar> work;
      double computing = 0;
      for (const auto& [action, begin, end] : own.actions) {
        const bool numbered = action.kind != ActionKind::kUpdate;
        const std::int64_t number = action.batch * plan_.micro_batches + action.micro_batch;
        add(work,
            {begin, end, color_of(static_cast<Work>(action.kind)), numbered ? std::to_string(number) : ""});
        computing += end - begin;
      }
      row(own.node, computing / measured_.seconds, false, work, {});
    }
  }

  void add_averaging(std::size_t cluster, std::vector<std::vector<Bar>>& sending) const {
    const std::vector<int>& members = planned_.members[cluster];
    if (planned_.members.size() > 1 && !averaging_is_simulated(plan_)) {
      for (std::vector<Bar>& bars : sending) add(bars, {round_begin_, round_end_, averaging_color(), ""});
    }
    for (const MessageSpan& span : averaging_.messages) {
      const ProgramMessage& message = averaging_program_.messages[span.message];
      const auto member = std::ranges::find(members, message.from);
      if (member == members.end()) continue;
      if (round_begin_ + span.begin >= round_end_) continue;
      add(sending[member - members.begin()],
          {round_begin_ + span.begin, std::min(round_begin_ + span.sent, round_end_), averaging_color(), ""});
    }
  }

  // What cannot be told apart becomes one.
  void add(std::vector<Bar>& bars, Bar bar) const {
    if (!bars.empty()) {
      Bar& before = bars.back();
      const bool touches = x_of(bar.begin) - x_of(before.end) < 0.3;
      const bool is_small = x_of(bar.end) - x_of(bar.begin) < 1;
      if (touches && is_small && before.color == bar.color) {
        before.end = std::max(before.end, bar.end);
        before.label.clear();
        return;
      }
    }
    bars.push_back(std::move(bar));
  }

  void row(const std::string& node, double computing, bool is_worst, const std::vector<Bar>& work,
           const std::vector<Bar>& sending) {
    svg_.rectangle(kMargin + kNames, y_, kWidth - 2 * kMargin - kNames, kWorkHeight + kSendHeight + 2,
                   {.fill = svg_color::kPanel});
    svg_.text(kMargin, y_ + 12, Svg::shortened(node, kNames - 8, 12, true),
              {.size = 12, .color = is_worst ? svg_color::kRed : svg_color::kInk, .bold = true});
    svg_.text(kMargin, y_ + 24, fmt::format("computes {:.1f}%", 100 * computing),
              {.size = 10, .color = svg_color::kFaint});
    if (is_worst)
      svg_.text(kMargin, y_ + 36, "bottleneck", {.size = 10, .color = svg_color::kRed, .bold = true});
    for (const Bar& bar : work) {
      const double width = x_of(bar.end) - x_of(bar.begin);
      if (bar.end <= bar.begin) continue;
      const bool is_wide = width > 3;
      svg_.rectangle(
          x_of(bar.begin), y_, std::max(width, 0.5), kWorkHeight,
          {.fill = bar.color, .stroke = is_wide ? svg_color::kWhite : "none", .stroke_width = 0.5});
      if (!bar.label.empty() && width >= std::max(kLegible, Svg::text_width(bar.label, 10) + 4)) {
        svg_.text((x_of(bar.begin) + x_of(bar.end)) / 2, y_ + 15, bar.label,
                  {.size = 10, .color = svg_color::kWhite, .align = SvgAlign::kMiddle});
      }
    }
    for (const Bar& bar : sending) {
      svg_.rectangle(x_of(bar.begin), y_ + kWorkHeight + 2, std::max(x_of(bar.end) - x_of(bar.begin), 0.5),
                     kSendHeight, {.fill = bar.color});
    }
    y_ += kRow;
  }

  const ClusterPlan& plan_;  // all of the caller
  const Planned& planned_;
  const Bottleneck& bottleneck_;
  const MeasuredStep& measured_;
  const std::int64_t steps_;
  bool overlaps_ = false;              // steps one behind the other last less long
  std::vector<StepProgram> programs_;  // these three by cluster
  std::vector<StepTrace> traces_;
  std::vector<StepRun> runs_;
  double barrier_ = 0;  // when the slowest cluster is done
  double end_ = 0;      // and the averaging that it waits for; or of what was measured
  double simulated_ = 0;
  double round_begin_ = 0;
  double round_end_ = 0;  // as far as it is drawn
  StepProgram averaging_program_;
  StepTrace averaging_;
  std::vector<std::size_t> shown_;  // clusters
  double y_ = 0;
  Svg svg_;
};

}  // namespace

// Of zb one is enough to show what the stages do.
std::int64_t steps_to_draw(const TrainingTask& task, const Planned& planned) {
  if (is_synchronous(task.settings.schedule)) return 1;
  const auto micro_batches = std::ssize(micro_batch_sizes(task.settings, task.settings.batch_size));
  const auto stages = static_cast<std::int64_t>(most_stages(planned));
  return 2 * ((stages + micro_batches - 1) / micro_batches) + 2;
}

std::string schedule_picture(const TrainingTask& task, const NodePool& pool, const Planned& planned,
                             const Bottleneck& bottleneck, const MeasuredStep& measured) {
  return SchedulePicture(task, pool, planned, bottleneck, measured).draw();
}

}  // namespace rookery
