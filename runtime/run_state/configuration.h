// What a run was made with, as texts that are kept with its snapshots, and how two of them differ.
#pragma once

#include <string>
#include <string_view>

namespace graft {

/// Stores of earlier versions have numbers in hexadecimal, "0x1.47ae147ae147bp-8"; these become decimal and stay exact.
std::string plain_numbers(std::string_view text);

/// "learning rate 0.005 now, 0.001 then": of the part `name` of two configurations, both with plain numbers, what
/// differs.
std::string what_differs(std::string_view name, std::string_view then, std::string_view now);

}  // namespace graft
