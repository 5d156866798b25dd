// Models of the Hugging Face hub by their address: fetched into a cache, with the checksums that the hub gives.
#pragma once

#include <string>
#include <string_view>

#include "tools/common/status.h"

namespace graft::cli {

/// "hf:ORG/NAME", "hf:ORG/NAME@REVISION", "hf:ORG/NAME/FILE" or both.
struct HubAddress {
  std::string repository;
  std::string revision = "main";
  std::string file;  ///< empty: the folder, with the files that graft convert reads

  std::string text() const;
};

inline bool is_hub_address(std::string_view text) { return text.starts_with("hf:"); }
Result<HubAddress> parse_hub_address(const std::string& text);

/// What was fetched, or was there.
struct Fetched {
  std::string path;  ///< of the folder, or of the file
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_fetched = 0;  ///< 0: all was there
};

/// The files lie in GRAFT_CACHE, or in graft below XDG_CACHE_HOME or ~/.cache, and stay there; each is there whole,
/// with the hub's checksum, or not at all. HF_ENDPOINT is the hub's address, HF_TOKEN the token for models that need
/// one (or what `huggingface-cli login` keeps). Where the hub cannot be reached, what an earlier call fetched of this
/// revision is taken, and a line on stderr says so.
Result<Fetched> fetch_from_hub(const HubAddress& address, bool quiet);

}  // namespace graft::cli
