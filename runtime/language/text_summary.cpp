#include "runtime/language/text_summary.h"

#include <algorithm>
#include <cmath>

#include "platform/base/json.h"
#include "platform/base/status.h"

namespace graft {
namespace {

/// 12345 as "12,345".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return cat(grouped(number), ' ', number == 1 ? one : many);
}

std::string percent(double share) { return cat(static_cast<int>(std::lround(100 * share)), "%"); }

double share(std::uint64_t part, std::uint64_t units, std::int64_t each) {
  const double whole = static_cast<double>(units) * static_cast<double>(each);
  return whole == 0 ? 0 : static_cast<double>(part) / whole;
}

std::string why(std::size_t reason, std::int64_t length) {
  switch (static_cast<TextSummary::Reason>(reason)) {
    case TextSummary::too_short: return "fewer than two tokens";
    case TextSummary::not_learned: return "nothing in them is to be learned";
    case TextSummary::nothing_fits: return cat("nothing that is to be learned fits into ", length, " tokens");
    case TextSummary::too_long: return cat("longer than ", length, " tokens");
  }
  return {};
}

constexpr const char* kReasonNames[TextSummary::kReasons] = {"too_short", "not_learned", "nothing_fits", "too_long"};

}  // namespace

double TextSummary::filled() const { return share(tokens, samples, length); }
double TextSummary::filled_unpacked() const { return share(tokens, pieces, length); }

bool TextSummary::lost_any() const {
  return cut > 0 || std::ranges::any_of(dropped, [](const Dropped& d) { return d.count > 0; });
}

std::vector<std::string> sentences_of(const TextSummary& s) {
  std::vector<std::string> out;
  std::string first = cat(counted(s.records, "record", "records"), ", ", counted(s.samples, "sample", "samples"),
                          " of ", s.length, " tokens: ", counted(s.tokens, "token", "tokens"), ", ", grouped(s.learned),
                          " of them learned; ", percent(s.filled()), " of the places are filled");
  if (s.packed) first += cat(" (", percent(s.filled_unpacked()), " with one text a sample)");
  out.push_back(first + ".");
  if (!s.unpacked.empty()) out.push_back(cat("One text a sample: ", s.unpacked));
  if (s.split > 0) {
    out.push_back(cat(counted(s.split, "record is", "records are"), " longer than a sample and split."));
  }
  if (s.cut > 0) {
    out.push_back(cat(counted(s.cut, "record is", "records are"),
                      " cut: ", counted(s.cut_tokens, "token is", "tokens are"), " left out."));
  }
  if (s.rest > 0) {
    out.push_back(cat(counted(s.rest, "token", "tokens"), " at the end fill no whole sample and are left out."));
  }
  for (std::size_t i = 0; i < s.dropped.size(); ++i) {
    if (s.dropped[i].count == 0) continue;
    out.push_back(cat(counted(s.dropped[i].count, "record is", "records are"), " left out: ", why(i, s.length),
                      " (the first: ", s.dropped[i].first, ")."));
  }
  return out;
}

std::string json_of(const TextSummary& s) {
  std::string out =
      cat("{\"records\":", s.records, ",\"samples\":", s.samples, ",\"length\":", s.length, ",\"tokens\":", s.tokens,
          ",\"learned\":", s.learned, ",\"filled\":", s.filled(), ",\"filled_unpacked\":", s.filled_unpacked()) +
      cat(",\"packed\":", s.packed ? "true" : "false", ",\"cut\":", s.cut, ",\"cut_tokens\":", s.cut_tokens,
          ",\"split\":", s.split, ",\"rest\":", s.rest, ",\"dropped\":{");
  for (std::size_t i = 0; i < s.dropped.size(); ++i) {
    out += cat(i == 0 ? "" : ",", '"', kReasonNames[i], "\":{\"count\":", s.dropped[i].count,
               ",\"first\":", json::quoted(s.dropped[i].first), "}");
  }
  return out + "}}";
}

}  // namespace graft
