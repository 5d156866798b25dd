// A refusal is one sentence that says what is wrong.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "platform/base/status.h"

namespace graft::test {

inline void expect_sentence(const Status& status, const std::string& part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(status.message().back(), '.') << status.message();
}

}  // namespace graft::test
