#include "tools/bench/inner_loop.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <vector>

namespace graft::cli {
namespace {

enum class Kind : std::uint8_t {
  multiply_add,
  matrix,
  load,
  shared_load,
  store,
  address,
  conversion,
  move,
  wait,
  nop,
  branch,
  other,
};

struct Prefix {
  std::string_view text;
  Kind kind{};
  std::uint32_t products = 0;
};

// The first that a mnemonic begins with. Adreno's are those of Mesa's ir3.xml, AMD's those of its ISA documents.
constexpr std::array kPrefixes = {
    // Adreno
    Prefix{"mad.f", Kind::multiply_add, 1},
    Prefix{"dp4acc", Kind::multiply_add, 4},
    Prefix{"dp2acc", Kind::multiply_add, 2},
    Prefix{"ldib", Kind::load},
    Prefix{"ldg", Kind::load},
    Prefix{"isam", Kind::load},
    Prefix{"ldl", Kind::shared_load},
    Prefix{"ldc", Kind::load},
    Prefix{"ldp", Kind::load},
    Prefix{"st", Kind::store},
    Prefix{"cov.", Kind::conversion},
    Prefix{"mova", Kind::address},
    Prefix{"mov", Kind::move},
    Prefix{"swz", Kind::move},
    Prefix{"gat", Kind::move},
    Prefix{"sct", Kind::move},
    Prefix{"nop", Kind::nop},
    Prefix{"add.u", Kind::address},
    Prefix{"add.s", Kind::address},
    Prefix{"sub.u", Kind::address},
    Prefix{"sub.s", Kind::address},
    Prefix{"mul.u", Kind::address},
    Prefix{"mul.s", Kind::address},
    Prefix{"mull", Kind::address},
    Prefix{"mad.u", Kind::address},
    Prefix{"mad.s", Kind::address},
    Prefix{"madsh", Kind::address},
    Prefix{"shl", Kind::address},
    Prefix{"shr", Kind::address},
    Prefix{"ashr", Kind::address},
    Prefix{"shfl", Kind::other},
    Prefix{"and.b", Kind::address},
    Prefix{"or.b", Kind::address},
    Prefix{"xor.b", Kind::address},
    Prefix{"not.b", Kind::address},
    Prefix{"cmps.u", Kind::address},
    Prefix{"cmps.s", Kind::address},
    Prefix{"min.u", Kind::address},
    Prefix{"min.s", Kind::address},
    Prefix{"max.u", Kind::address},
    Prefix{"max.s", Kind::address},
    Prefix{"sel.b", Kind::address},
    Prefix{"jump", Kind::branch},
    Prefix{"b", Kind::branch},
    Prefix{"predt", Kind::branch},
    Prefix{"predf", Kind::branch},
    Prefix{"prede", Kind::branch},
    // AMD
    Prefix{"v_pk_fma", Kind::multiply_add, 2},
    Prefix{"v_fma", Kind::multiply_add, 1},
    Prefix{"v_mac_f", Kind::multiply_add, 1},
    Prefix{"v_mad_f", Kind::multiply_add, 1},
    Prefix{"v_mad_mix", Kind::multiply_add, 1},
    Prefix{"v_dual_fma", Kind::multiply_add, 1},
    Prefix{"v_dot4", Kind::multiply_add, 4},
    Prefix{"v_dot8", Kind::multiply_add, 8},
    Prefix{"v_dot2", Kind::multiply_add, 2},
    Prefix{"v_wmma", Kind::matrix},
    Prefix{"v_swmmac", Kind::matrix},
    Prefix{"global_load", Kind::load},
    Prefix{"flat_load", Kind::load},
    Prefix{"s_load", Kind::load},
    Prefix{"s_buffer_load", Kind::load},
    Prefix{"scratch_load", Kind::load},
    Prefix{"ds_read", Kind::shared_load},
    Prefix{"ds_load", Kind::shared_load},
    Prefix{"ds_write", Kind::store},
    Prefix{"ds_store", Kind::store},
    Prefix{"global_store", Kind::store},
    Prefix{"flat_store", Kind::store},
    Prefix{"scratch_store", Kind::store},
    Prefix{"v_cvt", Kind::conversion},
    Prefix{"v_mov", Kind::move},
    Prefix{"v_dual_mov", Kind::move},
    Prefix{"s_mov", Kind::move},
    Prefix{"s_waitcnt", Kind::wait},
    Prefix{"s_wait_", Kind::wait},
    Prefix{"s_nop", Kind::nop},
    Prefix{"s_delay_alu", Kind::nop},
    Prefix{"s_clause", Kind::nop},
    Prefix{"s_cbranch", Kind::branch},
    Prefix{"s_branch", Kind::branch},
    Prefix{"s_add", Kind::address},
    Prefix{"s_sub", Kind::address},
    Prefix{"s_mul", Kind::address},
    Prefix{"s_lsh", Kind::address},
    Prefix{"s_ash", Kind::address},
    Prefix{"s_and", Kind::address},
    Prefix{"s_or", Kind::address},
    Prefix{"s_cmp", Kind::address},
    Prefix{"s_cselect", Kind::address},
    Prefix{"s_min", Kind::address},
    Prefix{"s_max", Kind::address},
    Prefix{"s_bfe", Kind::address},
    Prefix{"v_add3", Kind::address},
    Prefix{"v_lsh", Kind::address},
    Prefix{"v_ash", Kind::address},
    Prefix{"v_and", Kind::address},
    Prefix{"v_or", Kind::address},
    Prefix{"v_xad", Kind::address},
    Prefix{"v_mul_lo", Kind::address},
    Prefix{"v_mul_hi", Kind::address},
    Prefix{"v_mul_u32", Kind::address},
    Prefix{"v_mad_u", Kind::address},
    Prefix{"v_mad_i", Kind::address},
    Prefix{"v_bfe", Kind::address},
    Prefix{"v_cndmask", Kind::address},
};

bool is_integer(std::string_view mnemonic) {
  return std::ranges::any_of(std::array{"_u32", "_i32", "_u16", "_i16", "_u64", "_i64", "_nc_"},
                             [&](const char* part) { return mnemonic.find(part) != mnemonic.npos; });
}

Prefix kind_of(std::string_view mnemonic) {
  // buffer_load_dword and b (a branch) begin alike.
  if (mnemonic.starts_with("buffer_load")) return {mnemonic, Kind::load};
  if (mnemonic.starts_with("buffer_store")) return {mnemonic, Kind::store};
  if (mnemonic.starts_with("bary") || mnemonic.starts_with("bar")) return {mnemonic, Kind::other};
  if (mnemonic.starts_with("bfrev") || mnemonic.starts_with("bit")) return {mnemonic, Kind::other};
  for (const Prefix& it : kPrefixes) {
    if (mnemonic.starts_with(it.text)) return it;
  }
  if (mnemonic.starts_with("v_") && is_integer(mnemonic)) return {mnemonic, Kind::address};
  return {mnemonic, Kind::other};
}

struct Instruction {
  std::vector<Prefix> parts;  ///< two of AMD's dual issue
  std::uint32_t times = 1;
  std::uint32_t nops = 0;
  bool waits = false;
  std::string target;  ///< of a branch
};

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::uint32_t number_in(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "(sy)(rpt2)mad.f32 r0.x, ...": marks, then the mnemonic.
void read_marks(std::string_view& text, Instruction& instruction) {
  while (text.starts_with('(')) {
    const std::size_t end = text.find(')');
    if (end == text.npos) return;
    const std::string_view mark = text.substr(1, end - 1);
    if (mark == "sy" || mark == "ss") instruction.waits = true;
    if (mark.starts_with("rpt")) instruction.times = 1 + number_in(mark.substr(3));
    if (mark.starts_with("nop")) instruction.nops = number_in(mark.substr(3));
    text = trim(text.substr(end + 1));
  }
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool is_aco_label(std::string_view text) {
  return text.starts_with("BB") && text.size() > 2 &&
         std::ranges::all_of(text.substr(2), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The last word of a branch: "#l12", "BB3", "block:BB3".
std::string target_of(std::string_view text) {
  const std::size_t space = text.find_last_of(" \t");
  std::string_view word = space == text.npos ? text : text.substr(space + 1);
  if (word.starts_with('#')) word.remove_prefix(1);
  if (word.starts_with("block:")) word.remove_prefix(6);
  return std::string(word);
}

struct Listing {
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t> labels;
};

Listing read_listing(std::string_view text) {
  Listing listing;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trim(line.substr(0, std::min(line.find(';'), line.find("//"))));
    const bool colon = line.ends_with(':');
    const std::string_view name = line.substr(0, line.size() - (colon ? 1 : 0));
    if (is_name(name) && (colon || is_aco_label(name))) {
      listing.labels.emplace(name, listing.instructions.size());
      continue;
    }
    // ACO: " v1: %12:v[1] = v_cvt_f32_u32 %1089:s[8]".
    if (const std::size_t is = line.find(" = "); is != line.npos && line.find(": ") < is)
      line = trim(line.substr(is + 3));
    Instruction instruction;
    read_marks(line, instruction);
    if (line.empty() || std::islower(static_cast<unsigned char>(line.front())) == 0) continue;
    for (std::size_t at = 0; at != line.npos;) {
      const std::string_view part = trim(line.substr(at));
      instruction.parts.push_back(kind_of(part.substr(0, part.find_first_of(" \t"))));
      at = line.find("::", at);
      if (at != line.npos) at += 2;
    }
    if (instruction.parts[0].kind == Kind::branch) instruction.target = target_of(line);
    listing.instructions.push_back(std::move(instruction));
  }
  return listing;
}

void count(Kind kind, std::uint32_t times, InnerLoop& loop) {
  switch (kind) {
    case Kind::multiply_add: loop.multiply_adds += times; return;
    case Kind::matrix: loop.matrix += times; return;
    case Kind::load: loop.loads += times; return;
    case Kind::shared_load: loop.shared_loads += times; return;
    case Kind::store: loop.stores += times; return;
    case Kind::address: loop.address += times; return;
    case Kind::conversion: loop.conversions += times; return;
    case Kind::move: loop.moves += times; return;
    case Kind::wait: loop.waits += times; return;
    case Kind::nop: loop.nops += times; return;
    case Kind::branch:
    case Kind::other: loop.other += times; return;
  }
}

InnerLoop summary(const Listing& listing, std::size_t first, std::size_t end) {
  InnerLoop loop;
  for (std::size_t i = first; i < end; ++i) {
    const Instruction& it = listing.instructions[i];
    for (const Prefix& part : it.parts) {
      loop.instructions += it.times;
      loop.products += it.times * part.products;
      count(part.kind, it.times, loop);
    }
    loop.instructions += it.nops;
    loop.nops += it.nops;
    loop.waits += it.waits ? 1 : 0;
  }
  return loop;
}

}  // namespace

std::optional<InnerLoop> inner_loop(std::string_view text) {
  const Listing listing = read_listing(text);
  struct Range {
    std::size_t first, last;
  };
  std::vector<Range> loops;
  for (std::size_t i = 0; i < listing.instructions.size(); ++i) {
    const auto label = listing.labels.find(listing.instructions[i].target);
    if (label == listing.labels.end() || label->second > i) continue;
    const auto known = std::ranges::find(loops, label->second, &Range::first);
    if (known != loops.end()) {
      known->last = i;  // the way back from a `continue` is of the same loop
    } else {
      loops.push_back({label->second, i});
    }
  }
  std::optional<InnerLoop> best;
  for (const Range& loop : loops) {
    const bool inner = std::ranges::none_of(loops, [&](const Range& other) {
      return (other.first > loop.first || other.last < loop.last) && other.first >= loop.first &&
             other.last <= loop.last;
    });
    if (!inner) continue;
    const InnerLoop found = summary(listing, loop.first, loop.last + 1);
    const auto rank = [](const InnerLoop& it) { return std::pair(it.products + it.matrix * 256, it.instructions); };
    if (!best || rank(found) > rank(*best)) best = found;
  }
  return best;
}

InnerLoop all_instructions(std::string_view text) {
  const Listing listing = read_listing(text);
  return summary(listing, 0, listing.instructions.size());
}

}  // namespace graft::cli
