// What a kernel does most of the time, read from its disassembly: the innermost loop, and what its instructions are
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft::cli {

/// Of one iteration. Instructions that repeat (Adreno) or are two in one (AMD's dual issue) count as often as they
/// work.
struct InnerLoop {
  std::uint32_t instructions = 0;   ///< all of these
  std::uint32_t multiply_adds = 0;  ///< that multiply and add, each
  std::uint32_t products = 0;       ///< multiply-adds that they do per lane: two where they are packed
  std::uint32_t matrix = 0;         ///< of matrix units
  std::uint32_t loads = 0;          ///< from global memory
  std::uint32_t shared_loads = 0;
  std::uint32_t stores = 0;
  std::uint32_t address = 0;      ///< integer arithmetic: indices, addresses, bounds
  std::uint32_t conversions = 0;  ///< between types
  std::uint32_t moves = 0;
  std::uint32_t waits = 0;  ///< for results of loads; on Adreno marks on other instructions, which count there
  std::uint32_t nops = 0;   ///< cycles in which nothing is issued
  std::uint32_t other = 0;

  double products_per_instruction() const {
    return instructions == 0 ? 0 : static_cast<double>(products) / instructions;
  }
};

/// `text`: assembly as Mesa prints it for Adreno (IR3) or AMD (by LLVM, or ACO's own form), with labels. Of several
/// innermost loops that with the most products, then that with the most instructions; none where there is no loop or no
/// such assembly.
std::optional<InnerLoop> inner_loop(std::string_view text);

/// All instructions as if they were one loop.
InnerLoop all_instructions(std::string_view text);

}  // namespace graft::cli
