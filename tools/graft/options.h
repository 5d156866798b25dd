// Options and texts that several subcommands share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/shape.h"
#include "tools/graft/command.h"

namespace graft::cli {

/// "batch=32,seq=128", each at most once.
Result<Bindings> parse_bindings(const std::vector<std::string>& items);

/// "512MiB", "1.5GiB", "100MB", "4096": bytes. KiB/MiB/GiB are powers of 1024, KB/MB/GB of 1000.
Result<std::uint64_t> parse_size(const std::string& text);

/// "image=file.npy" -> {"image", "file.npy"}.
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text, const char* option);

/// --precision: parse with passes::parse_precision().
void add_precision_flag(CLI::App& app, std::string& precision);

/// "a,b,c" without empty parts.
std::vector<std::string> split_list(const std::string& text);
/// The same for a flag that may be given several times.
std::vector<std::string> split_lists(const std::vector<std::string>& texts);

/// JSON as it was typed, or what is in the file of that name.
Result<std::string> json_or_file(const std::string& given);

/// What is in a file, of at most 64 MiB.
Result<std::string> text_of_file(const std::string& path);

/// Writes a text to a file atomically, for --json, --svg and --metrics outputs.
Status write_text(const std::string& path, const std::string& text);

/// "conv/out" -> "conv_out.npy": a name may hold '/' (ONNX likes that) and ':'; a file name may not. A gradient's file
/// has the name of what it is of.
std::string npy_file_name(std::string name);

/// "1,234,567".
std::string grouped(std::uint64_t number);

/// "12.3 M", "4.56 G": for FLOPs and counts in tables.
std::string si_text(double number);

}  // namespace graft::cli
