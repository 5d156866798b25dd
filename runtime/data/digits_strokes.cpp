#include "runtime/data/digits_strokes.h"

namespace graft::data {
namespace {

using P = StrokePoint;

// A straight line is a cubic whose control points lie on it; they may wobble like all others.
#define LINE(x0, y0, x1, y1) \
  P{((x0)*2 + (x1)) / 3.0, ((y0)*2 + (y1)) / 3.0}, P{((x0) + (x1)*2) / 3.0, ((y0) + (y1)*2) / 3.0}, P { x1, y1 }

constexpr P kZero[] = {{.52, .02}, {.20, .00}, {.12, .30}, {.12, .52}, {.12, .80}, {.26, 1.0}, {.50, 1.0},
                       {.76, 1.0}, {.88, .76}, {.88, .48}, {.88, .20}, {.74, .02}, {.48, .03}};
constexpr P kZeroNarrow[] = {{.60, .04}, {.34, .02}, {.22, .34}, {.24, .60}, {.26, .88}, {.38, 1.0}, {.52, .98},
                             {.70, .94}, {.78, .66}, {.76, .42}, {.74, .16}, {.66, .02}, {.54, .02}};
constexpr P kOne[] = {{.50, .00}, LINE(.50, .00, .50, 1.0)};
constexpr P kOneFlag[] = {{.30, .24}, LINE(.30, .24, .54, .00), LINE(.54, .00, .54, 1.0)};
constexpr P kOneFoot[] = {{.28, 1.0}, LINE(.28, 1.0, .78, 1.0)};
constexpr P kTwo[] = {{.16, .26},
                      {.20, .06},
                      {.36, .00},
                      {.52, .00},
                      {.74, .00},
                      {.86, .14},
                      {.84, .32},
                      {.80, .56},
                      {.34, .78},
                      {.12, 1.0},
                      LINE(.12, 1.0, .90, .98)};
constexpr P kTwoLoop[] = {{.18, .20}, {.30, .00}, {.80, -.06}, {.80, .28}, {.80, .56},  {.46, .90}, {.24, .94},
                          {.06, .98}, {.10, .72}, {.30, .78},  {.52, .84}, {.62, 1.02}, {.92, .92}};
constexpr P kThree[] = {{.18, .14}, {.30, .00}, {.78, -.04}, {.80, .24},  {.80, .42},  {.62, .48}, {.40, .48},
                        {.66, .48}, {.88, .56}, {.86, .76},  {.82, 1.04}, {.28, 1.06}, {.12, .86}};
constexpr P kThreeFlat[] = {{.16, .04},
                            LINE(.16, .04, .80, .04),
                            LINE(.80, .04, .46, .42),
                            {.72, .42},
                            {.88, .56},
                            {.84, .76},
                            {.78, 1.02},
                            {.32, 1.06},
                            {.12, .88}};
constexpr P kFourLeft[] = {{.34, .00}, {.28, .22}, {.20, .42}, {.10, .62}, LINE(.10, .62, .92, .60)};
constexpr P kFourDown[] = {{.70, .06}, LINE(.70, .06, .66, 1.0)};
constexpr P kFourClosed[] = {{.92, .68}, LINE(.92, .68, .08, .68), LINE(.08, .68, .66, .00), LINE(.66, .00, .66, 1.0)};
constexpr P kFive[] = {
    {.28, .02}, LINE(.28, .02, .20, .44), {.40, .32}, {.84, .34}, {.84, .66}, {.84, 1.04}, {.32, 1.06}, {.12, .88}};
constexpr P kFiveTop[] = {{.28, .02}, LINE(.28, .02, .84, .00)};
constexpr P kFiveOne[] = {{.84, .02},
                          LINE(.84, .02, .32, .04),
                          LINE(.32, .04, .26, .42),
                          {.52, .32},
                          {.88, .44},
                          {.80, .74},
                          {.72, 1.02},
                          {.30, 1.04},
                          {.14, .92}};
constexpr P kSix[] = {{.70, .00}, {.40, .14}, {.14, .46}, {.14, .72}, {.14, .92}, {.28, 1.0}, {.48, 1.0}, {.72, 1.0},
                      {.86, .88}, {.84, .70}, {.82, .50}, {.62, .46}, {.46, .50}, {.30, .54}, {.20, .64}, {.16, .76}};
constexpr P kSixStraight[] = {{.44, .00}, {.30, .26}, {.18, .52}, {.18, .74}, {.18, .96}, {.36, 1.02}, {.52, .98},
                              {.76, .94}, {.82, .78}, {.76, .64}, {.66, .46}, {.30, .54}, {.20, .80}};
constexpr P kSeven[] = {{.12, .04}, LINE(.12, .04, .86, .04), {.70, .36}, {.50, .66}, {.42, 1.0}};
constexpr P kSevenHook[] = {{.14, .20}, LINE(.14, .20, .18, .06), LINE(.18, .06, .84, .04), {.72, .30}, {.46, .62},
                            {.36, 1.0}};
constexpr P kSevenBar[] = {{.32, .52}, LINE(.32, .52, .80, .48)};
constexpr P kEight[] = {{.78, .14}, {.60, -.04}, {.22, -.02}, {.22, .22}, {.22, .46}, {.84, .50},
                        {.84, .76}, {.84, 1.06}, {.16, 1.08}, {.16, .78}, {.16, .52}, {.78, .46},
                        {.80, .20}, {.80, .14},  {.78, .12},  {.74, .10}};
constexpr P kEightTop[] = {{.50, .00}, {.28, .00}, {.24, .16}, {.24, .24}, {.24, .40}, {.38, .46}, {.50, .46},
                           {.64, .46}, {.76, .38}, {.76, .24}, {.76, .10}, {.66, .00}, {.50, .00}};
constexpr P kEightBottom[] = {{.50, .46}, {.28, .46}, {.16, .58}, {.16, .74}, {.16, .92}, {.32, 1.0}, {.50, 1.0},
                              {.70, 1.0}, {.84, .90}, {.84, .74}, {.84, .58}, {.70, .46}, {.50, .46}};
constexpr P kNine[] = {{.80, .24}, {.76, .06}, {.62, .00}, {.48, .00}, {.28, .00}, {.16, .14}, {.16, .30}, {.16, .48},
                       {.30, .56}, {.44, .56}, {.64, .56}, {.78, .42}, {.80, .24}, {.84, .54}, {.74, .82}, {.62, 1.0}};
constexpr P kNineStraight[] = {{.78, .10}, {.56, -.06}, {.18, .02}, {.18, .30},
                               {.18, .58}, {.64, .58},  {.78, .14}, LINE(.78, .14, .72, 1.0)};
constexpr P kNineHook[] = {{.78, .26}, {.80, .02}, {.22, -.10}, {.18, .26}, {.16, .60}, {.76, .60}, {.78, .26},
                           {.82, .58}, {.84, .98}, {.54, 1.0},  {.38, 1.0}, {.26, .96}, {.20, .86}};
#undef LINE

constexpr Stroke kZeroA[] = {{kZero}}, kZeroB[] = {{kZeroNarrow}};
constexpr Stroke kOneA[] = {{kOne}}, kOneB[] = {{kOneFlag}}, kOneC[] = {{kOneFlag}, {kOneFoot}};
constexpr Stroke kTwoA[] = {{kTwo}}, kTwoB[] = {{kTwoLoop}};
constexpr Stroke kThreeA[] = {{kThree}}, kThreeB[] = {{kThreeFlat}};
constexpr Stroke kFourA[] = {{kFourLeft}, {kFourDown}}, kFourB[] = {{kFourClosed}};
constexpr Stroke kFiveA[] = {{kFive}, {kFiveTop}}, kFiveB[] = {{kFiveOne}};
constexpr Stroke kSixA[] = {{kSix}}, kSixB[] = {{kSixStraight}};
constexpr Stroke kSevenA[] = {{kSeven}}, kSevenB[] = {{kSeven}, {kSevenBar}}, kSevenC[] = {{kSevenHook}};
constexpr Stroke kEightA[] = {{kEight}}, kEightB[] = {{kEightTop}, {kEightBottom}};
constexpr Stroke kNineA[] = {{kNine}}, kNineB[] = {{kNineStraight}}, kNineC[] = {{kNineHook}};

constexpr Glyph kGlyphs0[] = {{kZeroA}, {kZeroB}};
constexpr Glyph kGlyphs1[] = {{kOneA}, {kOneA}, {kOneB}, {kOneC}};
constexpr Glyph kGlyphs2[] = {{kTwoA}, {kTwoB}};
constexpr Glyph kGlyphs3[] = {{kThreeA}, {kThreeA}, {kThreeB}};
constexpr Glyph kGlyphs4[] = {{kFourA}, {kFourA}, {kFourB}};
constexpr Glyph kGlyphs5[] = {{kFiveA}, {kFiveB}};
constexpr Glyph kGlyphs6[] = {{kSixA}, {kSixB}};
constexpr Glyph kGlyphs7[] = {{kSevenA}, {kSevenA}, {kSevenB}, {kSevenC}};
constexpr Glyph kGlyphs8[] = {{kEightA}, {kEightB}};
constexpr Glyph kGlyphs9[] = {{kNineA}, {kNineB}, {kNineC}};

constexpr std::span<const Glyph> kGlyphs[] = {kGlyphs0, kGlyphs1, kGlyphs2, kGlyphs3, kGlyphs4,
                                              kGlyphs5, kGlyphs6, kGlyphs7, kGlyphs8, kGlyphs9};

}  // namespace

std::span<const Glyph> digit_glyphs(int digit) { return kGlyphs[digit]; }

}  // namespace graft::data
