// Options and texts that several subcommands share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/command.h"
#include "tools/common/files.h"

namespace graft::cli {

/// Sizes of named dimensions.
using Bindings = std::map<std::string, std::int64_t, std::less<>>;

/// "batch=32,seq=128", each at most once.
Result<Bindings> parse_bindings(const std::vector<std::string>& items);

/// "512MiB", "1.5GiB", "100MB", "4096": bytes. KiB/MiB/GiB are powers of 1024, KB/MB/GB of 1000.
Result<std::uint64_t> parse_size(const std::string& text);

/// How names in flags are quoted, for the help.
inline constexpr char kNamesHelp[] = "a backslash before , = : ; + * or \\ makes it part of a name";

/// "image=file.npy" -> {"image", "file.npy"}. The name is unquoted: "a\=b=f.npy" -> {"a=b", "f.npy"}.
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text, const char* option);

/// --precision: "f32", "f16" or "bf16", which whoever uses it looks at.
void add_precision_flag(CLI::App& app, std::string& precision);

/// "a,b\,c" -> {"a", "b,c"}, without empty names (platform/base/names.h).
std::vector<std::string> split_list(const std::string& text);
/// The same for a flag that may be given several times.
std::vector<std::string> split_lists(const std::vector<std::string>& texts);
/// "a=1,b\,c=2" -> {"a=1", "b\,c=2"}: items whose names parse_assignment() or plain() unquotes.
std::vector<std::string> split_items(const std::string& text);
std::vector<std::string> split_items(const std::vector<std::string>& texts);
/// A name as it is given to a flag, without its backslashes, and the other way round.
std::string unquoted(const std::string& name);
std::string quoted(const std::string& name);
/// Where `separator` is that no backslash takes; npos without one.
std::size_t find_separator(const std::string& text, char separator);

/// JSON as it was typed, or what is in the file of that name.
Result<std::string> json_or_file(const std::string& given);

/// "conv/out" -> "conv_out.npy": a name may hold '/' (ONNX likes that) and ':'; a file name may not. A gradient's file
/// has the name of what it is of. A name that is too long for a file is cut, and ends in a hash of the whole name.
std::string npy_file_name(std::string name);
/// A file for each name. Names that would share a file ("y:0" and "y_0", or "Y" and "y" where case does not matter) get
/// files of their own: "y_0.npy" and "y_0~2.npy".
std::map<std::string, std::string, std::less<>> npy_file_names(const std::vector<std::string>& names);

/// "1,234,567".
std::string grouped(std::uint64_t number);

/// "12.3 M", "4.56 G": for FLOPs and counts in tables.
std::string si_text(double number);

/// What --budget says of itself in the help of plan and train.
inline constexpr char kBudgetHelp[] =
    "Largest device memory, as in 512MiB, or weights+150MB for so much beside the frozen weights: workspace and "
    "staging shrink, results are computed again, micro-batches shrink, frozen weights are streamed from the file, in "
    "this order";

}  // namespace graft::cli
