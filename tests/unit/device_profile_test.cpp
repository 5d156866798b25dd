#include "runtime/self_test/device_profile.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/files/fault_files.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::device_profile_test {
namespace {

struct Log {
  std::string text;
  LogSink sink() {
    return {[](void* user, LogLevel, std::string_view message) { *static_cast<std::string*>(user) += message; }, &text,
            LogLevel::warning};
  }
};

gpu::Caps caps_of(const std::string& name, std::uint32_t driver = 1) {
  gpu::Caps caps;
  caps.device_name = name;
  caps.driver_version = driver;
  return caps;
}

class DeviceProfileTest : public testing::Test {
 protected:
  std::unique_ptr<DeviceProfile> open(const gpu::Caps& caps = caps_of("a")) {
    return DeviceProfile::open(os::system_files(), folder_.path() + "/cache", caps, log_.sink());
  }
  // Written by a process that ended well.
  std::string written() {
    auto profile = open();
    profile->begin_probe({"k1", "k2", "k3/tile 4"});
    profile->pass("k1");
    profile->fail("k2", "differs\nby 3");
    profile->pass("k3/tile 4");
    profile->leave_untested("k4");
    profile->set_tuned({{"gemm k 8x8x8x1", "tile 4"}});
    profile->save();
    return profile->path();
  }
  TemporaryFolder folder_;
  Log log_;
};

TEST_F(DeviceProfileTest, RemembersVerdictsAndTunedChoices) {
  written();
  written();
  const auto profile = open();
  EXPECT_EQ(log_.text, "");
  EXPECT_TRUE(profile->known("k1") && profile->known("k2") && profile->known("k4") && !profile->known("k5"));
  EXPECT_EQ(profile->passed(), (std::set<ProofKey>{"k1", "k3/tile 4"}));
  EXPECT_EQ(profile->failed().at("k2"), "differs by 3");
  const gpu::Advice advice = profile->advice();
  EXPECT_EQ(advice.avoided, (std::set<std::string, std::less<>>{"k2"}));
  EXPECT_EQ(advice.tuned.at("gemm k 8x8x8x1"), "tile 4");
}

// Once may be the driver's want of memory. Starts without such a failure do not bring the verdict nearer.
TEST_F(DeviceProfileTest, WhatFailedInTwoProcessesHasFailed) {
  const auto fails = [&] {
    const auto profile = open();
    EXPECT_FALSE(profile->known("wrong"));
    profile->begin_probe({"wrong"});
    profile->fail("wrong", "differs by 3");
    EXPECT_TRUE(profile->advice().avoided.contains("wrong")) << "in this process";
    profile->save();
    EXPECT_TRUE(profile->failed().contains("wrong"));
  };
  fails();
  EXPECT_FALSE(open()->advice().avoided.contains("wrong"));
  open()->save();
  fails();
  EXPECT_EQ(open()->failed().at("wrong"), "differs by 3");
  open()->save();
  EXPECT_TRUE(open()->failed().contains("wrong")) << "for good";
}

TEST_F(DeviceProfileTest, WhatPassesAfterItFailedIsAsGoodAsNew) {
  for (const bool fails : {true, false, true}) {
    const auto profile = open();
    EXPECT_EQ(profile->passed().contains("shaky"), false);
    EXPECT_FALSE(profile->failed().contains("shaky"));
    profile->forget_verdicts();
    profile->begin_probe({"shaky"});
    fails ? profile->fail("shaky", "differs") : profile->pass("shaky");
    profile->save();
    if (!fails) {
      EXPECT_TRUE(open()->passed().contains("shaky"));
      profile->forget_verdicts();
      profile->save();
    }
  }
  EXPECT_FALSE(open()->known("shaky"));
}

// Once may be a user's doing, or the system's for want of memory.
TEST_F(DeviceProfileTest, WhatWasBeingTestedWhenTheProcessDiedTwiceHasFailed) {
  {
    auto profile = open();
    profile->begin_probe({"good"});
    profile->pass("good");
    profile->begin_probe({"deadly", "unlucky"});
  }  // no save(): the process is gone
  {
    const auto profile = open();
    EXPECT_TRUE(profile->passed().contains("good"));
    EXPECT_FALSE(profile->known("deadly") || profile->known("unlucky"));
    profile->begin_probe({"unlucky"});
    profile->pass("unlucky");
    profile->begin_probe({"deadly", "other"});
  }
  {
    const auto profile = open();
    EXPECT_TRUE(profile->passed().contains("good"));
    EXPECT_TRUE(profile->passed().contains("unlucky"));
    EXPECT_FALSE(profile->known("other")) << "its first time";
    ASSERT_TRUE(profile->failed().contains("deadly"));
    EXPECT_NE(log_.text.find("deadly"), std::string::npos) << log_.text;
  }
  log_.text.clear();
  EXPECT_TRUE(open()->failed().contains("deadly")) << "for good";
  EXPECT_EQ(log_.text, "");
}

// Starts without a death in them do not bring a verdict nearer, nor do they take it back.
TEST_F(DeviceProfileTest, ADeathIsRememberedOverStartsThatTestOtherKernels) {
  open()->begin_probe({"deadly"});
  for (int start = 0; start < 3; ++start) {
    const auto profile = open();
    EXPECT_FALSE(profile->known("deadly"));
    profile->begin_probe({"good"});
    profile->pass("good");
    profile->save();
  }
  open()->begin_probe({"deadly"});
  EXPECT_TRUE(open()->failed().contains("deadly"));
}

TEST_F(DeviceProfileTest, AProbeOfALivingProcessIsNoCrash) {
  auto first = open();
  first->begin_probe({"slow"});
  const auto second = open();
  EXPECT_FALSE(second->known("slow"));
  second->fail("x", "y");
  second->save();  // not written: the first one holds the file
  first->pass("slow");
  first->save();
  first.reset();
  const auto third = open();
  EXPECT_TRUE(third->passed().contains("slow"));
  EXPECT_FALSE(third->known("x"));
}

TEST_F(DeviceProfileTest, IgnoresDamagedFilesWithALogLine) {
  const std::string path = written();
  const std::string good = os::read_text_file(os::system_files(), path, 1 << 20).value();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(path) << bad;
    log_.text.clear();
    EXPECT_FALSE(open()->known("k1")) << at;
    EXPECT_NE(log_.text.find(path), std::string::npos) << at;
  }
  std::ofstream(path) << good.substr(0, good.size() / 2);
  EXPECT_FALSE(open()->known("k1"));
  std::ofstream(path) << "";
  EXPECT_FALSE(open()->known("k1"));
  written();
  EXPECT_TRUE(open()->known("k1")) << "written anew";
}

TEST_F(DeviceProfileTest, BelongsToOneDeviceAndDriver) {
  const std::string path = written();
  EXPECT_FALSE(open(caps_of("b"))->known("k1"));
  EXPECT_EQ(log_.text, "") << "another device has another file";
  EXPECT_FALSE(open(caps_of("a", 2))->known("k1"));
  EXPECT_NE(log_.text.find("another driver"), std::string::npos) << log_.text;
  EXPECT_TRUE(open()->known("k1"));
}

TEST_F(DeviceProfileTest, NeedsNoFolder) {
  auto profile = DeviceProfile::open(os::system_files(), "", caps_of("a"));
  profile->begin_probe({"k"});
  profile->pass("k");
  profile->save();
  EXPECT_TRUE(profile->known("k"));
  EXPECT_EQ(profile->path(), "");
  EXPECT_EQ(profile->pipeline_cache_path(), "");
  // A file where the folder should be: logged, and nothing is kept.
  folder_.write("cache", "a file");
  EXPECT_FALSE(open()->known("k"));
  EXPECT_NE(log_.text, "");
}

}  // namespace
}  // namespace graft::test::device_profile_test
