#include "node/membership/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MembershipTest : public testing::Test {
 protected:
  static MembershipOptions options() {
    MembershipOptions made;
    made.node = "node_0";
    return made;
  }

  Membership::Actions on(const MembershipEvent& event) { return membership_.on(event, now_); }

  // Lets time pass in ticks, as the I/O thread does; what the ticks lead to.
  Membership::Actions pass(milliseconds time, const std::vector<int>& heard = {}) {
    Membership::Actions all;
    for (const auto end = now_ + time; now_ < end;) {
      now_ += milliseconds(100);
      for (const int peer : heard) on(event::PeerHeard{peer});
      for (MembershipAction& action : on(event::Tick{})) all.push_back(std::move(action));
    }
    return all;
  }

  void begin() {
    for (const int peer : {0, 1}) {
      on(event::PeerCame{peer, 100U + static_cast<unsigned>(peer)});
      on(event::PeerWelcomed{peer});
      on(event::PeerJoined{peer});
    }
    ASSERT_FALSE(membership_.gathering());
  }

  static std::string failure(const Membership::Actions& actions) {
    for (const MembershipAction& action : actions) {
      if (const auto* fail = std::get_if<action::Fail>(&action)) return fail->message;
    }
    return "no failure";
  }

  // Begins anew with another grace.
  void set_grace(milliseconds grace) {
    MembershipOptions made = options();
    made.reconnect_grace = grace;
    membership_ = Membership(made, {"node_1 (a:1)", "node_2 (b:2)"}, now_);
  }

  Membership::Time now_{};
  Membership membership_{options(), {"node_1 (a:1)", "node_2 (b:2)"}, now_};
};

TEST_F(MembershipTest, BeginsWhenAllHaveComeWelcomedAndJoined) {
  EXPECT_THAT(on(event::PeerCame{0, 1}), IsEmpty());
  EXPECT_THAT(on(event::PeerCame{1, 2}), IsEmpty());
  for (const int peer : {0, 1}) EXPECT_THAT(on(event::PeerJoined{peer}), IsEmpty());
  EXPECT_THAT(on(event::PeerWelcomed{1}), IsEmpty());
  EXPECT_THAT(on(event::PeerWelcomed{0}), ElementsAre(MembershipAction(action::Begin{})));
}

TEST_F(MembershipTest, DoesNotBeginWithAPeerThatTakesNoPart) {
  for (const int peer : {0, 1}) {
    on(event::PeerCame{peer, 1});
    on(event::PeerWelcomed{peer});
  }
  EXPECT_THAT(on(event::PeerJoined{1}), IsEmpty());
  EXPECT_EQ(failure(pass(seconds(301), {0, 1})),
            "gave up after 300 s: node_1 (a:1): its provider runs, but takes no part yet");
}

TEST_F(MembershipTest, SaysEveryFewSecondsWhoIsMissing) {
  on(event::PeerCame{0, 1});
  on(event::PeerWelcomed{0});
  on(event::PeerJoined{0});
  const auto actions = pass(seconds(11), {0});
  ASSERT_EQ(actions.size(), 2U);
  const auto& report = std::get<action::Report>(actions[0]);
  EXPECT_THAT(report.text, HasSubstr("node_2 (b:2)"));
  EXPECT_THAT(report.text, testing::Not(HasSubstr("node_1")));
}

TEST_F(MembershipTest, GivesUpWaitingAndSaysForWhom) {
  on(event::PeerRefused{1, "it runs plan X"});
  const auto actions = pass(seconds(301));
  EXPECT_EQ(failure(actions),
            "gave up after 300 s: node_1 (a:1) never answered; is its provider running? node_2 (b:2): it "
            "runs plan X");
  EXPECT_TRUE(membership_.over());
}

TEST_F(MembershipTest, GivesUpWaitingForAllWhoNeverAnswered) {
  EXPECT_EQ(
      failure(pass(seconds(301))),
      "gave up after 300 s: node_1 (a:1) and node_2 (b:2) never answered; are their providers running?");
}

// Whoever is refused says so at once, and not again with every try.
TEST_F(MembershipTest, WhyAPeerIsNotHereIsToldAtOnce) {
  EXPECT_THAT(on(event::PeerRefused{1, "it runs plan X"}),
              ElementsAre(MembershipAction(action::Report{"waiting for node_2 (b:2): it runs plan X"})));
  EXPECT_THAT(on(event::PeerRefused{1, "it runs plan Y"}), IsEmpty());
  const auto actions = pass(seconds(5));
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<action::Report>(actions[0]).text,
            "waiting for node_1 (a:1), node_2 (b:2): it runs plan Y (5 s so far)");
}

TEST_F(MembershipTest, WhyAPeerIsNotHereHoldsUntilItIsTakenBack) {
  on(event::PeerCame{1, 1});
  on(event::PeerRefused{1, "no descriptor"});
  on(event::PeerCame{1, 1});  // it says hello again and again
  EXPECT_THAT(on(event::PeerRefused{1, "no descriptor"}), IsEmpty());
  EXPECT_THAT(on(event::PeerRefused{1, ""}), IsEmpty());
  EXPECT_THAT(failure(pass(seconds(301))), HasSubstr("node_1 (a:1) and node_2 (b:2) never answered"));
}

TEST_F(MembershipTest, WhoIsRefusedDuringTheRunChangesNothing) {
  begin();
  EXPECT_THAT(on(event::PeerRefused{1, "it runs plan X"}), IsEmpty());
}

TEST_F(MembershipTest, APeerMayRestartWhileOthersAreAwaited) {
  on(event::PeerCame{0, 1});
  on(event::PeerWelcomed{0});
  on(event::PeerJoined{0});
  on(event::PeerClosed{0});
  EXPECT_THAT(on(event::PeerCame{0, 7}), ElementsAre(MembershipAction(action::Forget{0})));
  on(event::PeerCame{1, 2});
  on(event::PeerWelcomed{1});
  on(event::PeerJoined{1});
  EXPECT_THAT(on(event::PeerWelcomed{0}), IsEmpty()) << "that it took part was said by the process before";
  EXPECT_THAT(on(event::PeerJoined{0}), ElementsAre(MembershipAction(action::Begin{})));
}

TEST_F(MembershipTest, APeerThatRestartsInTheRunIsLost) {
  begin();
  EXPECT_THAT(failure(on(event::PeerCame{0, 999})),
              HasSubstr("node_1 (a:1) is lost: it was restarted during the run"));
}

TEST_F(MembershipTest, AClosedConnectionHasTheGraceToComeBack) {
  set_grace(seconds(3));
  begin();
  on(event::PeerClosed{1});
  EXPECT_THAT(pass(milliseconds(2900), {0, 1}), IsEmpty());
  on(event::PeerWelcomed{1});
  EXPECT_THAT(pass(seconds(5), {0, 1}), IsEmpty());
  on(event::PeerClosed{1});
  const auto actions = pass(seconds(3), {0});
  EXPECT_EQ(failure(actions),
            "node_2 (b:2) is lost: connection closed 3.0 s ago and not back (reconnect_grace_seconds)");
}

// An outage that a router answers with resets, say.
TEST_F(MembershipTest, WithoutAGraceOfItsOwnAClosedConnectionIsLostAfterThePeerTimeout) {
  begin();
  on(event::PeerClosed{1});
  EXPECT_THAT(pass(milliseconds(9900), {0}), IsEmpty());
  EXPECT_EQ(
      failure(pass(milliseconds(200), {0})),
      "node_2 (b:2) is lost: nothing heard for 10.0 s (peer_timeout_seconds), connection closed 10.0 s ago");
}

TEST_F(MembershipTest, OthersAreToldOfALoss) {
  begin();
  on(event::PeerClosed{1});
  const auto actions = pass(seconds(10), {0});
  const auto& flood = std::get<action::FloodStop>(actions.at(0));
  EXPECT_EQ(flood.notice.origin, "node_0");
  EXPECT_THAT(flood.notice.reason, HasSubstr("node_2 (b:2) is lost"));
}

TEST_F(MembershipTest, SilenceIsALoss) {
  begin();
  EXPECT_THAT(pass(milliseconds(9900), {0}), IsEmpty());
  EXPECT_EQ(failure(pass(milliseconds(200), {0})),
            "node_2 (b:2) is lost: nothing heard for 10.0 s (peer_timeout_seconds)");
}

TEST_F(MembershipTest, OwnStandstillIsNoSilenceOfPeers) {
  begin();
  now_ += seconds(60);  // this process was stopped and goes on
  EXPECT_THAT(on(event::Tick{}), IsEmpty());
  EXPECT_THAT(pass(seconds(5), {0, 1}), IsEmpty());
  EXPECT_THAT(failure(pass(seconds(11), {0})), HasSubstr("node_2"));
}

TEST_F(MembershipTest, WhoeverIsSilentForLessThanASecondMayBeLostToo) {
  MembershipOptions made = options();
  made.peer_timeout = milliseconds(350);
  membership_ = Membership(made, {"node_1 (a:1)", "node_2 (b:2)"}, now_);
  begin();
  EXPECT_THAT(failure(pass(milliseconds(400), {0})), HasSubstr("node_2 (b:2) is lost"));
}

TEST_F(MembershipTest, AStopIsRelayedOnceAndNamesItsOrigin) {
  begin();
  const StopNotice notice{"node_2", "was stopped by SIGTERM", 15};
  const StopNotice relayed{"node_2 (b:2)", notice.reason, 15};  // to those who may not know where it is
  EXPECT_THAT(on(event::StopCame{1, notice}),
              ElementsAre(MembershipAction(action::FloodStop{relayed, 1}),
                          MembershipAction(action::Fail{"node_2 (b:2) was stopped by SIGTERM"})));
  EXPECT_THAT(on(event::StopCame{0, notice}), IsEmpty());
}

// As a member of a ring hears of one that is not its neighbour.
TEST_F(MembershipTest, AStopOfANodeThatIsNoPeerNamesItAsItCame) {
  begin();
  const StopNotice notice{"node_11 (c:3)", "ended the run: node_12 (d:4) is lost: nothing heard"};
  EXPECT_THAT(on(event::StopCame{0, notice}),
              ElementsAre(MembershipAction(action::FloodStop{notice, 0}),
                          MembershipAction(action::Fail{"node_11 (c:3) " + notice.reason})));
}

TEST_F(MembershipTest, ALossSaysWhereItHasStruck) {
  std::string place = "ring 2";
  membership_ = Membership(options(), {"node_1 (a:1)", "node_2 (b:2)"}, now_, [&] { return place; });
  begin();
  place += ", round 17";
  const std::string what =
      "node_2 (b:2) is lost in ring 2, round 17: nothing heard for 10.0 s (peer_timeout_seconds)";
  EXPECT_THAT(pass(seconds(11), {0}),
              ElementsAre(MembershipAction(action::FloodStop{{"node_0", "ended the run: " + what}}),
                          MembershipAction(action::Fail{what})));
}

TEST_F(MembershipTest, AnOwnStopCarriesItsSignal) {
  on(event::PeerCame{0, 1});  // also while others are awaited
  const StopNotice notice{"node_0", stop_reason(2), 2};
  EXPECT_THAT(on(event::StopWanted{notice}),
              ElementsAre(MembershipAction(action::FloodStop{notice}),
                          MembershipAction(action::Fail{"node_0 was stopped by SIGINT (Ctrl-C)", 2})));
}

// Word for word, to members and to this node's own calls.
TEST_F(MembershipTest, AnotherGroupsEndIsHandedOn) {
  const event::RunEnded ended{{"node_7 (c:3)", "was stopped by SIGTERM", 15}, "this node's words", 15};
  EXPECT_THAT(on(ended), ElementsAre(MembershipAction(action::FloodStop{ended.notice}),
                                     MembershipAction(action::Fail{"this node's words", 15})));
  EXPECT_TRUE(membership_.over());
  EXPECT_THAT(on(ended), IsEmpty());
}

TEST_F(MembershipTest, AStopNamesItsSignal) {
  EXPECT_EQ(stop_reason(15), "was stopped by SIGTERM");
  EXPECT_EQ(stop_reason(1), "was stopped by SIGHUP (terminal closed)");
}

TEST_F(MembershipTest, EndsWhenAllByesAreConfirmed) {
  begin();
  EXPECT_THAT(on(event::PeerSaidBye{0, false}), ElementsAre(MembershipAction(action::Departed{0})));
  EXPECT_THAT(on(event::LeaveWanted{}), ElementsAre(MembershipAction(action::SendBye{0, true}),
                                                    MembershipAction(action::SendBye{1, false})));
  EXPECT_THAT(on(event::PeerSaidBye{1, true}),
              ElementsAre(MembershipAction(action::Departed{1}), MembershipAction(action::SendBye{1, true})));
  EXPECT_THAT(on(event::PeerSaidBye{0, true}), ElementsAre(MembershipAction(action::End{})));
  EXPECT_TRUE(membership_.over());
}

TEST_F(MembershipTest, AByeThatWasLostIsAnsweredAgain) {
  begin();
  on(event::LeaveWanted{});
  on(event::PeerSaidBye{0, false});
  EXPECT_THAT(on(event::PeerSaidBye{0, false}), ElementsAre(MembershipAction(action::SendBye{0, true})));
}

TEST_F(MembershipTest, WhoClosesAfterItsByeHasOurs) {
  begin();
  on(event::LeaveWanted{});
  on(event::PeerSaidBye{0, true});
  on(event::PeerSaidBye{1, false});
  on(event::PeerClosed{1});
  EXPECT_THAT(pass(seconds(3), {0}), ElementsAre(MembershipAction(action::End{})));
}

TEST_F(MembershipTest, WhoSaidByeMayClose) {
  begin();
  on(event::PeerSaidBye{0, false});
  on(event::PeerClosed{0});
  EXPECT_THAT(pass(seconds(30), {1}), IsEmpty());
}

TEST_F(MembershipTest, WhoDiesBeforeItsByeIsLost) {
  begin();
  on(event::LeaveWanted{});
  on(event::PeerSaidBye{0, false});
  on(event::PeerClosed{1});
  EXPECT_THAT(failure(pass(seconds(10), {})), HasSubstr("node_2 (b:2) is lost"));
}

TEST_F(MembershipTest, NothingHappensAfterTheEnd) {
  begin();
  on(event::StopWanted{{"node_0", "failed: disk full"}});
  EXPECT_TRUE(membership_.over());
  EXPECT_THAT(on(event::PeerCame{0, 5}), IsEmpty());
  EXPECT_THAT(pass(seconds(60)), IsEmpty());
}

}  // namespace
}  // namespace rookery
