// What is read of drivers' disassembly: which loop is the innermost, and what its instructions are for.
#include "tools/bench/inner_loop.h"

#include <gtest/gtest.h>

namespace graft::test::inner_loop_test {
namespace {

TEST(InnerLoops, OfAdrenosAssembly) {
  const auto loop = cli::inner_loop(
      "mov.u32u32 r0.x, c0.x\n"
      "l1:\n"
      "(sy)(rpt1)mov.f32f32 r1.x, (r)r2.x\n"
      "l2:\n"
      "ldl.f32 r4.x, l[r0.x], 4\n"
      "(ss)(rpt3)mad.f32 r8.x, r4.x, (r)r5.x, (r)r8.x   ; four\n"
      "(nop2) mad.f32 r9.x, r4.y, r5.y, r9.x\n"
      "cov.f16f32 r6.x, hr1.x\n"
      "add.u r0.x, r0.x, 16\n"
      "(rpt2)nop\n"
      "br p0.x, #l2\n"
      "stib.b.untyped.1d.u32.1.imm r1.x, r2.x, 0\n"
      "jump #l1\n"
      "end\n");
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->instructions, 14u);
  EXPECT_EQ(loop->multiply_adds, 5u);
  EXPECT_EQ(loop->products, 5u);
  EXPECT_EQ(loop->shared_loads, 1u);
  EXPECT_EQ(loop->conversions, 1u);
  EXPECT_EQ(loop->address, 1u);
  EXPECT_EQ(loop->waits, 1u);
  EXPECT_EQ(loop->nops, 5u);
  EXPECT_EQ(loop->stores, 0u);
  EXPECT_EQ(loop->other, 1u) << "the branch";
}

TEST(InnerLoops, OfAmdsAssembly) {
  const auto loop = cli::inner_loop(
      "BB0:\n"
      "\ts_mov_b32 s0, 0                         // 000: be800080\n"
      "BB1:\n"
      "\tds_load_b128 v[0:3], v4\n"
      "\tbuffer_load_b128 v[4:7], v1, s[0:3], 0 offen\n"
      "\ts_waitcnt lgkmcnt(0)\n"
      "\tv_dual_fmac_f32 v8, v0, v4 :: v_dual_fmac_f32 v9, v1, v5\n"
      "\tv_pk_fma_f16 v10, v0, v1, v10\n"
      "\tv_cvt_f32_f16_e32 v11, v10\n"
      "\tv_add_nc_u32_e32 v4, 64, v4\n"
      "\ts_cbranch_scc1 BB2\n"
      "\ts_branch BB1\n"
      "BB2:\n"
      "\ts_endpgm\n");
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->instructions, 10u);
  EXPECT_EQ(loop->multiply_adds, 3u);
  EXPECT_EQ(loop->products, 4u) << "a packed one is two";
  EXPECT_EQ(loop->loads, 1u);
  EXPECT_EQ(loop->shared_loads, 1u);
  EXPECT_EQ(loop->waits, 1u);
  EXPECT_EQ(loop->conversions, 1u);
  EXPECT_EQ(loop->address, 1u);
  EXPECT_EQ(loop->other, 2u) << "branches";
}

TEST(InnerLoops, OfAcosOwnForm) {
  const auto loop = cli::inner_loop(
      "ACO shader stage: SW (CS), HW (COMPUTE_SHADER)\n"
      "BB1\n"
      "/* logical preds: BB0, BB1, / linear preds: BB0, BB1, / kind: uniform, */\n"
      "\t v4: %12:v[0-3] = ds_read_b128 %3:v[4] offset:64\n"
      "\ts_waitcnt lgkmcnt(0)\n"
      "\t v1: (precise)%14:v[1] = v_fma_f32 %12:v[0], %13:v[5], %14:v[1]\n"
      "\t s1: %4:s[16],  s1: %1107:scc = s_add_u32 %1095:s[16], %3:s[13]\n"
      "\ts_cbranch_scc0 block:BB1\n"
      "BB2\n"
      "\ts_endpgm\n");
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->instructions, 5u);
  EXPECT_EQ(loop->products, 1u);
  EXPECT_EQ(loop->shared_loads, 1u);
  EXPECT_EQ(loop->address, 1u);
  EXPECT_EQ(loop->waits, 1u);
}

TEST(InnerLoops, OfSeveralTheOneWithTheMostProducts) {
  const auto loop = cli::inner_loop(
      "l1:\nadd.u r0.x, r0.x, 1\nadd.u r0.y, r0.y, 1\nbr p0.x, #l1\n"
      "l2:\nmad.f32 r0.x, r0.y, r0.z, r0.x\nbr p0.x, #l2\n");
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(loop->products, 1u);
  EXPECT_FALSE(cli::inner_loop("mad.f32 r0.x, r0.y, r0.z, r0.x\nbr p0.x, #l9\nl9:\nend\n").has_value())
      << "a branch forward is no loop";
  EXPECT_FALSE(cli::inner_loop("").has_value());
  EXPECT_EQ(cli::all_instructions("mad.f32 r0.x, r0.y, r0.z, r0.x\nend\n").products, 1u);
}

}  // namespace
}  // namespace graft::test::inner_loop_test
