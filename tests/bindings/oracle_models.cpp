#include "tests/bindings/oracle_models.h"

#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test {

bool write_oracle_models(const std::string& folder) {
  write_model(tiny_mlp(kOracleInputs, 6, kOracleClasses), folder + "/mlp.graft");
  return save_model(os::system_files(), folder + "/letters.graft", letter_model()).ok() &&
         save_model(os::system_files(), folder + "/teacher.graft", letter_model({.seed = 2})).ok() &&
         !testing::Test::HasFailure();
}

std::string oracle_device() { return test_device_options().device; }

std::vector<float> oracle_samples(std::uint32_t count) { return CBatch(count, kOracleInputs, kOracleClasses).x; }

}  // namespace graft::test
