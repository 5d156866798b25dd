#include "tools/bench/kernel_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "platform/os/file.h"
#include "runtime/kernels/kernel_cache.h"
#include "runtime/kernels/low_precision_kernel.h"
#include "runtime/ops/choice.h"
#include "runtime/self_test/probe_plans.h"
#include "tools/common/progress.h"
#include "tools/common/stopwatch.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FactName {
  std::optional<double> KernelFacts::*fact;
  std::string_view name;  ///< as a driver says it
  double unit = 1;
};

// Names of Mesa's drivers: turnip, RADV, anv. Several of one driver for a fact are added up.
constexpr std::array kFactNames = {
    FactName{&KernelFacts::instructions, "Instruction Count"},
    FactName{&KernelFacts::instructions, "Instructions"},
    FactName{&KernelFacts::nops, "NOPs Count"},
    FactName{&KernelFacts::stalls, "Estimated cycles stalled on SS"},
    FactName{&KernelFacts::stalls, "Estimated cycles stalled on SY"},
    FactName{&KernelFacts::registers, "Registers used"},
    FactName{&KernelFacts::registers, "VGPRs"},
    FactName{&KernelFacts::registers, "Max live registers"},
    FactName{&KernelFacts::spills, "STP Count"},
    FactName{&KernelFacts::spills, "LDP Count"},
    FactName{&KernelFacts::spills, "Spilled SGPRs"},
    FactName{&KernelFacts::spills, "Spilled VGPRs"},
    FactName{&KernelFacts::spills, "Spill Count"},
    FactName{&KernelFacts::spills, "Fill Count"},
    FactName{&KernelFacts::scratch_bytes, "Scratch size"},
    FactName{&KernelFacts::scratch_bytes, "Scratch Memory Size"},
    FactName{&KernelFacts::shared_bytes, "LDS size"},
    FactName{&KernelFacts::waves, "Max Waves Per Core"},
    FactName{&KernelFacts::waves, "Subgroups per SIMD"},
    FactName{&KernelFacts::code_bytes, "Code size"},
    FactName{&KernelFacts::latency, "Latency"},
    FactName{&KernelFacts::latency, "Cycle Count"},
    FactName{&KernelFacts::inverse_throughput, "Inverse Throughput"},
};

// turnip counts its code in words, and says so only in the description.
bool is_adreno(const gpu::KernelReport& report) {
  return std::ranges::any_of(report.statistics, [](const auto& it) { return it.name == "Half-registers used"; });
}

KernelFacts facts_of(const gpu::KernelReport& report) {
  KernelFacts facts;
  for (const gpu::KernelReport::Statistic& it : report.statistics) {
    for (const FactName& name : kFactNames) {
      if (it.name == name.name) facts.*name.fact = (facts.*name.fact).value_or(0) + it.value;
    }
  }
  if (is_adreno(report) && facts.code_bytes) *facts.code_bytes *= 4;
  return facts;
}

std::string assembly_of(const gpu::KernelReport& report) {
  return report.texts.empty() ? std::string() : report.texts.back().text;
}

bool is_faulty(const CompiledKernel& kernel) {
  return !kernel.failure.empty() || kernel.facts.spills.value_or(0) > 0 || kernel.facts.scratch_bytes.value_or(0) > 0;
}

std::string title_of(const CompiledKernel& kernel) {
  constexpr std::size_t kFewZeros = 4;  // more stand for constants that the kernel does not have
  std::string title = kernel.name;
  for (std::size_t i = 0; i < kernel.constants.size();) {
    std::size_t zeros = i;
    while (zeros < kernel.constants.size() && kernel.constants[zeros] == 0) ++zeros;
    const bool skips = zeros - i > kFewZeros;
    title += (i == 0 ? " " : ",") + (skips ? std::string("..") : cat(kernel.constants[i]));
    i = skips ? zeros : i + 1;
  }
  return title;
}

std::string number(const std::optional<double>& value) {
  return value ? cat(static_cast<long long>(std::llround(*value))) : std::string("-");
}

template <typename Member>
double sum_of(const KernelBench& bench, Member member) {
  double sum = 0;
  for (const CompiledKernel& kernel : bench.kernels) sum += (kernel.facts.*member).value_or(0);
  return sum;
}

double seconds_of(const KernelBench& bench) {
  double sum = 0;
  for (const CompiledKernel& kernel : bench.kernels) sum += kernel.seconds;
  return sum;
}

}  // namespace

void KernelList::add(const std::string& name, const Plan& plan, const gpu::Target& target) {
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::dispatch) continue;
    const PlanKernel& used = plan.kernels[step.kernel];
    auto& [kernel, out] = kernels_[{used.id, used.specialization, used.storage, used.shares}];
    if (out.name.empty()) {
      kernel = used;
      out.name = form_name(shaders::kernel_info(used.id), used.storage, target);
      out.constants = used.specialization;
    }
    out.used_by.insert(name);
    ++out.dispatches;
    out.flops += step.flops;
    out.bytes += step.bytes;
  }
}

Result<KernelBench> KernelBench::compile(gpu::Device& device, KernelList list, bool texts) {
  KernelBench bench;
  Progress progress("kernel", list.size(), false);
  for (auto& [key, entry] : list.kernels_) {
    CompiledKernel& kernel = entry.second;
    progress.update(bench.kernels.size() + 1, kernel.name);
    KernelCache cache(device);  // of its own, so that thousands do not fill the memory
    const Stopwatch watch(Clock::wall);
    const auto made = cache.get({&entry.first, 1}, false, {});
    kernel.seconds = watch.seconds();
    if (const Status status = made.status(); status.code() == Code::device_lost) return status;
    if (!made.ok()) kernel.failure = made.status().message();
    Result<gpu::KernelReport> report = gpu::KernelReport{};
    if (made.ok()) report = device.report(*made->front());
    if (!report.ok()) {
      if (report.status().code() != Code::unsupported) return std::move(report).status();
      bench.untold = report.status().message();
    } else {
      kernel.report = *std::move(report);
      kernel.facts = facts_of(kernel.report);
      const std::string assembly = assembly_of(kernel.report);
      kernel.loop = inner_loop(assembly);
      const InnerLoop all = all_instructions(assembly);
      if (!kernel.facts.nops && all.instructions > 0) kernel.facts.nops = all.nops;
      if (!texts) kernel.report.texts.clear();
    }
    bench.kernels.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(bench.kernels, [](const CompiledKernel& a, const CompiledKernel& b) {
    const double left = a.facts.instructions.value_or(0), right = b.facts.instructions.value_or(0);
    return left != right ? left > right : title_of(a) < title_of(b);
  });
  return bench;
}

Status add_choices(const gpu::Target& target, KernelList& list) {
  std::vector<gpu::Target> users = {target};
  users.emplace_back(target).policy.matmul_precision = gpu::MatmulPrecision::medium;
  if (!rounds_products(users.back())) users.pop_back();
  for (const OpProbe& probe : self_test_probes()) {
    if (!is_in_build(probe)) continue;
    for (const DType elements : {DType::f32, DType::f16, DType::bf16}) {
      TRY_ASSIGN(const BuiltProbe built, build_probe(probe, elements));
      for (const gpu::Target& user : users) {
        const auto plan = plan_probe(built, user);
        if (!plan.ok()) continue;  // a limit of the device
        list.add("choice", *plan, user);
        gpu::Target other = user;
        for (const PlanNode& node : plan->nodes) {
          for (const PlanChoice& choice : node.choices) {
            for (const Variant& variant : variants()) {
              if (!choice.key.starts_with(cat(family_name(variant.family), " "))) continue;
              if (variant.name == choice.variant) continue;
              other.advice.tuned = user.advice.tuned;
              other.advice.tuned[choice.key] = variant.name;
              if (const auto changed = plan_probe(built, other); changed.ok()) list.add("choice", *changed, user);
            }
          }
        }
      }
    }
  }
  return ok_status();
}

void print_kernels(const KernelBench& bench) {
  using Kind = Table::Kind;
  Table table({{"kernel", 64, Kind::name},
               {"ms", 5, Kind::number},
               {"instr.", 9, Kind::number},
               {"nops", 6, Kind::optional},
               {"stalls", 6, Kind::optional},
               {"bytes", 7, Kind::optional},
               {"regs", 5, Kind::number},
               {"spills", 6, Kind::number},
               {"waves", 5, Kind::optional},
               {" inner loop: all, multiply-adds, loads, shared, address, convert, move, wait, nop", 0, Kind::name}});
  for (const CompiledKernel& kernel : bench.kernels) {
    const KernelFacts& f = kernel.facts;
    std::string last;
    if (kernel.loop) {
      const InnerLoop& l = *kernel.loop;
      last =
          cat(" ", l.instructions, ", ", l.matrix > 0 ? cat(l.matrix, " matrix") : cat(l.products), ", ", l.loads, ", ",
              l.shared_loads, ", ", l.address, ", ", l.conversions, ", ", l.moves, ", ", l.waits, ", ", l.nops);
    }
    if (!kernel.failure.empty()) last += cat(" ", kernel.failure);
    table.row({title_of(kernel), number_text("%.0f", kernel.seconds * 1e3), number(f.instructions), number(f.nops),
               number(f.stalls), number(f.code_bytes), number(f.registers), number(f.spills), number(f.waves), last});
  }
  table.print();
  to_stdout("\n%zu kernels, compiled one by one in %.2f s", bench.kernels.size(), seconds_of(bench));
  if (!bench.untold.empty()) {
    to_stdout(".\n%s\n", bench.untold.c_str());
    return;
  }
  const double instructions = sum_of(bench, &KernelFacts::instructions);
  const double nops = sum_of(bench, &KernelFacts::nops);
  to_stdout("; %.0f instructions", instructions);
  if (nops > 0) to_stdout(", of which %.0f%% are nops", 100 * nops / instructions);
  to_stdout(".\n");
}

Json kernels_json(const KernelBench& bench) {
  Json rows = Json::array();
  for (const CompiledKernel& kernel : bench.kernels) {
    Json& row = rows.emplace_back(Json{{"kernel", kernel.name},
                                       {"constants", kernel.constants},
                                       {"used_by", kernel.used_by},
                                       {"dispatches", kernel.dispatches},
                                       {"flops", kernel.flops},
                                       {"bytes", kernel.bytes},
                                       {"compile_seconds", kernel.seconds}});
    if (!kernel.failure.empty()) row["failure"] = kernel.failure;
    const auto add = [&](const char* name, const std::optional<double>& value) {
      if (value) row[name] = *value;
    };
    const KernelFacts& f = kernel.facts;
    add("instructions", f.instructions);
    add("nops", f.nops);
    add("stall_cycles", f.stalls);
    add("registers", f.registers);
    add("spills", f.spills);
    add("scratch_bytes", f.scratch_bytes);
    add("shared_bytes", f.shared_bytes);
    add("waves", f.waves);
    add("code_bytes", f.code_bytes);
    add("latency", f.latency);
    add("inverse_throughput", f.inverse_throughput);
    if (kernel.report.subgroup_size != 0) row["subgroup_size"] = kernel.report.subgroup_size;
    if (kernel.loop) {
      const InnerLoop& l = *kernel.loop;
      row["inner_loop"] = {{"instructions", l.instructions},
                           {"multiply_adds", l.multiply_adds},
                           {"products", l.products},
                           {"matrix", l.matrix},
                           {"loads", l.loads},
                           {"shared_loads", l.shared_loads},
                           {"stores", l.stores},
                           {"address", l.address},
                           {"conversions", l.conversions},
                           {"moves", l.moves},
                           {"waits", l.waits},
                           {"nops", l.nops},
                           {"other", l.other}};
    }
    Json statistics = Json::object();
    for (const auto& it : kernel.report.statistics) statistics[it.name] = it.value;
    if (!statistics.empty()) row["statistics"] = std::move(statistics);
  }
  Json out = {{"compile_seconds", seconds_of(bench)}, {"kernels", std::move(rows)}};
  if (!bench.untold.empty()) out["untold"] = bench.untold;
  return out;
}

Status dump_kernels(const KernelBench& bench, const std::string& folder) {
  os::FileSystem& files = os::system_files();
  TRY(os::make_directories(files, folder));
  for (const CompiledKernel& kernel : bench.kernels) {
    std::string name = title_of(kernel);
    std::ranges::replace_if(
        name, [](char c) { return c == ' ' || c == ',' || c == '@'; }, '_');
    TRY(os::atomic_write_file(files, cat(folder, "/", name, ".txt"), assembly_of(kernel.report)));
  }
  return ok_status();
}

Status verdict_on(const KernelBench& bench) {
  std::size_t faulty = 0;
  const CompiledKernel* worst = nullptr;
  for (const CompiledKernel& kernel : bench.kernels) {
    if (!is_faulty(kernel)) continue;
    ++faulty;
    if (worst == nullptr) worst = &kernel;
  }
  if (worst == nullptr) return ok_status();
  const std::string of =
      cat(faulty, " of ", bench.kernels.size(),
          " kernels do not compile, spill registers or use scratch memory; the largest is \"", title_of(*worst), "\"");
  if (!worst->failure.empty()) return error(Code::device_error, of, ": ", worst->failure);
  return error(Code::device_error, of, " with ", number(worst->facts.spills), " spills and ",
               number(worst->facts.scratch_bytes), " bytes of scratch.");
}

}  // namespace graft::cli
