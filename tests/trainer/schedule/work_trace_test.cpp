#include "trainer/schedule/work_trace.hpp"

#include <gmock/gmock.h>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const TraceOwner kOwner{.plan_id = "0123456789abcdef", .node = "node_2", .cluster = 1, .stage = 2};

TEST(WorkTrace, IsReadAsItWasWritten) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "trace.json";
  WorkTrace trace;
  const auto begin = WorkTrace::Clock::now();
  trace.add({ActionKind::kForward, 7, 3}, begin, begin + 5ms);
  trace.add({ActionKind::kUpdate, 7, 3}, begin + 6ms, begin + 8ms);
  write_trace(path, kOwner, trace.actions());
  const ReadTrace read = read_trace(path);
  EXPECT_EQ(read.owner.plan_id, kOwner.plan_id);
  EXPECT_EQ(read.owner.node, "node_2");
  EXPECT_EQ(read.owner.cluster, 1);
  EXPECT_EQ(read.owner.stage, 2);
  ASSERT_EQ(read.actions.size(), 2U);
  EXPECT_EQ(read.actions[0].action, (Action{ActionKind::kForward, 7, 3}));
  EXPECT_EQ(read.actions[1].action, (Action{ActionKind::kUpdate, 7, 3}));
  constexpr double kMicrosecond = 1e-6;
  EXPECT_NEAR(read.actions[0].end - read.actions[0].begin, 5e-3, kMicrosecond);
  EXPECT_NEAR(read.actions[1].begin - read.actions[0].begin, 6e-3, kMicrosecond);
  EXPECT_GT(read.actions[0].begin, 1.7e9);  // seconds since 1970
}

TEST(WorkTrace, KeepsTheNewest) {
  WorkTrace trace;
  for (std::size_t step = 0; step < WorkTrace::kMost + 2; ++step)
    trace.add({ActionKind::kForward, static_cast<std::int64_t>(step), 0}, {}, {});
  EXPECT_EQ(trace.actions().size(), WorkTrace::kMost);
  EXPECT_EQ(trace.actions().front().action.batch, 2);
}

TEST(WorkTrace, WhatNoProviderWroteIsRefused) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "trace.json";
  write_trace(path, kOwner, {TracedAction{.begin = 1, .end = 2}});
  const Json sound = read_json(path);
  const auto message = [&](const auto& change) {
    Json document = sound;
    change(document);
    write_file(path, document.dump());
    try {
      read_trace(path);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message([](Json& d) { d = Json::array(); }), HasSubstr("trace.json"));
  EXPECT_THAT(message([](Json& d) { d.erase("otherData"); }), HasSubstr("otherData"));
  EXPECT_THAT(message([](Json& d) { d["otherData"]["version"] = 2; }), HasSubstr("version"));
  EXPECT_THAT(message([](Json& d) { d["traceEvents"] = 3; }), HasSubstr("traceEvents"));
  EXPECT_THAT(message([](Json& d) { d["traceEvents"].back()["cat"] = "X"; }), HasSubstr("traceEvents"));
  EXPECT_THAT(message([](Json& d) { d["traceEvents"].back()["args"]["step"] = -1; }), HasSubstr("step"));
  EXPECT_EQ(message([](Json&) {}), "nothing");
}

}  // namespace
}  // namespace rookery
