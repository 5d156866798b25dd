// reshape: another shape for the same elements; a view, nothing is dispatched.
#include "runtime/core/node_check.h"
#include "runtime/core/op_def.h"
#include "runtime/core/vjp.h"

namespace graft::ops::reshape {
namespace {

constexpr AttrSpec kAttrs[] = {attr::shape("shape").needed()};

Status infer(InferContext& c) {
  const Shape target = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(target).with_context("In the attribute \"shape\""));
  GRAFT_TRY_ASSIGN(const Dim from, c.shape(0).element_count());
  GRAFT_TRY_ASSIGN(const Dim to, target.element_count());
  // Whether a quotient that is rounded down leaves something is seen once its symbols are bound.
  const auto rounded = [](const Dim& count) { return count.symbols().find("//") != std::string::npos; };
  if (from != to && !rounded(from) && !rounded(to)) {
    return invalid("Its input has the shape ", c.shape(0).text(), " with ", from.text(),
                   " elements, which cannot become ", target.text(), " with ", to.text(), ".");
  }
  c.output(c.dtype(0), target);
  return ok_status();
}

Status vjp(VjpContext& c) {
  c.grad(0, c.b.reshape(c.dy(), c.in_shape(0)));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_reshape;
const OpDef op_reshape = {
    .name = "reshape", .attrs = kAttrs, .infer = infer, .gradient = vjp, .flops = no_flops, .alias_input = 0};

}  // namespace graft::ops::reshape
